package txidem

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// other is a store of another process: a pool of its own, with a network that stays whole.
func (f *fixture) other(policy *Policy) *fixture {
	f.t.Helper()
	pool := dbtest.PoolAt(f.t, f.pool.Config().ConnString(), nil)
	store, err := New(pool, &Config{Policy: policy})
	if err != nil {
		f.t.Fatal(err)
	}
	return &fixture{t: f.t, pool: pool, store: store}
}

// vanishing is a call whose client vanishes in its handler.
type vanishing struct {
	f     *fixture
	wire  *faultconn.Conn // under its transaction
	goOn  chan struct{}
	ended chan error
	got   Result[string]
}

// vanish starts a call that writes an effect of run 1 and then goes on with then, when its wire is known.
func (f *fixture) vanish(req Request, then func(ctx context.Context, tx pgx.Tx) error) *vanishing {
	f.t.Helper()
	v := &vanishing{f: f, goOn: make(chan struct{}), ended: make(chan error, 1)}
	there := make(chan struct{})
	go func() {
		var err error
		v.got, err = Run(f.t.Context(), f.store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
			if err := writeRun(ctx, tx, req.Key, 1); err != nil {
				return "", err
			}
			v.wire = wireOf(tx)
			close(there)
			return "1", then(ctx, tx)
		})
		v.ended <- err
	}()
	select {
	case <-there:
	case err := <-v.ended:
		f.t.Fatalf("the call ended before its handler ran: %v", err)
	}
	return v
}

func (v *vanishing) end() error {
	v.f.t.Helper()
	select {
	case err := <-v.ended:
		return err
	case <-time.After(40 * time.Second):
		v.f.t.Fatal("the vanished call does not end")
		return nil
	}
}

// duplicate calls again from elsewhere. Its effect is of run 2.
func duplicate(f *fixture, req Request) (Result[string], error) {
	return Run(f.t.Context(), f.store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
		return "2", writeRun(ctx, tx, req.Key, 2)
	})
}

// meanwhile checks what others hear of a call whose client has vanished, as long as its claim is held.
func meanwhile(f *fixture, req Request) {
	f.t.Helper()
	req.Policy = &Policy{Wait: NoWait}
	var running *InProgressError
	if got, err := duplicate(f, req); !errors.As(err, &running) || !Retryable(err) || running.RetryAfter <= 0 || got.Raw != nil {
		f.t.Errorf("meanwhile a duplicate hears %+v, %v; want an InProgressError", got, err)
	}
	if status, err := f.store.Status(f.t.Context(), req); err != nil || status.State != toolcall.StateRunning {
		f.t.Errorf("meanwhile the status is %+v, %v; want running", status, err)
	}
	req.Args = []byte(`{"order":"B-2"}`)
	if _, err := duplicate(f, req); !errors.Is(err, ErrInProgress) {
		f.t.Errorf("meanwhile other arguments hear %v, want ErrInProgress", err)
	}
}

// takesOver checks that a duplicate gets to run, and that its effect is the only one.
func takesOver(f *fixture, req Request) {
	f.t.Helper()
	begin := time.Now()
	got, err := duplicate(f, req)
	if err != nil || got.Replayed || got.Value != "2" {
		f.t.Errorf("the duplicate got %+v, %v; want to run", got, err)
	}
	f.t.Logf("the claim was free %v after the client vanished", time.Since(begin).Round(time.Millisecond))
	if runs := f.ran()[req.Key]; len(runs) != 1 || runs[0] != 2 {
		f.t.Errorf("effects of the runs %v, want the duplicate's alone", runs)
	}
}

// A client that is killed while the server works on a statement of 30 s: the server looks after it once a second.
func TestRun_R20_ClientKilledInsideAStatement(t *testing.T) {
	t.Parallel()
	f, wire, _ := wired(t, nil, 4)
	wire.LoseCancels(true) // the dead do not ask to stop
	other := f.other(&Policy{Wait: 20 * time.Second})
	v := f.vanish(request("k"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select pg_sleep(30)`)
		return err
	})
	eventually(t, "the statement runs", func() bool {
		var n int
		err := other.pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and wait_event = 'PgSleep'`).Scan(&n)
		return err == nil && n == 1
	})
	meanwhile(other, request("k"))
	v.wire.Cut()
	takesOver(other, request("k"))
	if err := v.end(); err == nil || errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) {
		t.Errorf("the client's own call ended with %v, want an error that is sure of the outcome", err)
	}
	f.clean()
}

// A client that is killed between two statements: the system closes its connection, and the server hears of it at once.
func TestRun_R20_ClientKilledBetweenStatements(t *testing.T) {
	t.Parallel()
	f, _, _ := wired(t, nil, 4)
	other := f.other(&Policy{Wait: 20 * time.Second})
	goOn := make(chan struct{})
	v := f.vanish(request("k"), func(context.Context, pgx.Tx) error { <-goOn; return nil })
	meanwhile(other, request("k"))
	v.wire.Cut()
	takesOver(other, request("k"))
	close(goOn)
	if err := v.end(); err != nil || !v.got.Replayed || v.got.Value != "2" {
		t.Errorf("the handler that knew nothing of it got %+v, %v; want the duplicate's answer", v.got, err)
	}
	f.clean()
}

// A half-open network: neither side hears of the other any more, and the server has only its own patience.
func TestRun_R20_HalfOpenNetwork(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		sql  bool // the client goes on with SQL, not with its answer
		want error
	}{
		"and the handler ends":      {false, nil},
		"and the handler wants SQL": {true, context.DeadlineExceeded},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, wire, _ := wired(t, &Policy{IdleInTx: 300 * time.Millisecond, CommitTimeout: time.Second}, 4)
			other := f.other(&Policy{Wait: 20 * time.Second})
			goOn := make(chan struct{})
			v := f.vanish(request("k"), func(ctx context.Context, tx pgx.Tx) error {
				wireOf(tx).Stall()
				<-goOn
				if !c.sql {
					return nil
				}
				ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				return writeRun(ctx, tx, "k", 1)
			})
			takesOver(other, request("k"))
			close(goOn)
			err := v.end()
			if c.want == nil && (err != nil || !v.got.Replayed || v.got.Value != "2") {
				t.Errorf("the client got %+v, %v; want the duplicate's answer", v.got, err)
			}
			if c.want != nil && (!errors.Is(err, c.want) || errors.Is(err, ErrOutcomeUnknown)) {
				t.Errorf("the client got %v, want %v", err, c.want)
			}
			wire.CutStalled()
			f.clean()
		})
	}
}

// What others hear of a half-open client as long as the server has patience. It must not be a guess.
func TestRun_R20_HalfOpenNetworkMeanwhile(t *testing.T) {
	t.Parallel()
	f, wire, _ := wired(t, nil, 4)
	other := f.other(nil)
	goOn := make(chan struct{})
	v := f.vanish(request("k"), func(_ context.Context, tx pgx.Tx) error {
		wireOf(tx).Stall()
		<-goOn
		return errors.New("never mind")
	})
	meanwhile(other, request("k"))
	req := request("k")
	req.Policy = &Policy{CommitTimeout: 50 * time.Millisecond}
	if status, err := other.store.Resolve(t.Context(), req); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("meanwhile Resolve says %+v, %v; want ErrOutcomeUnknown", status, err)
	}
	wire.CutStalled()
	close(goOn)
	if err := v.end(); err == nil {
		t.Error("the client's own call succeeded")
	}
	f.clean()
}

// A claim whose every byte is lost: turn 1 itself goes into the void, and so does the roll-back of a call that gives up.
func TestRun_R20_SilenceInTurnOne(t *testing.T) {
	t.Parallel()
	f, wire, _ := wired(t, &Policy{IdleInTx: 300 * time.Millisecond}, 1)
	other := f.other(&Policy{Wait: 20 * time.Second})
	for label, pass := range map[string]func([]byte) int{"nothing arrives": faultconn.Nothing, "the answer is lost": nil} {
		conn, err := f.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		faultconn.Of(conn.Conn().PgConn().Conn()).Arm(atFinish(pass, faultconn.Stall))
		conn.Release()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		got, err := Run(ctx, f.store, request(label), writes("never"))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOutcomeUnknown) || got.Raw != nil {
			t.Errorf("%s: got %+v, %v; want the caller's own deadline", label, got, err)
		}
		takesOver(other, request(label))
		wire.CutStalled()
	}
	if n := f.effects("never"); n != 0 {
		t.Errorf("%d effects", n)
	}
	f.clean()
}

// Cut connections in turn 1 cost at most another connection: nothing has happened yet (R11).
func TestRun_R11_CutsInTurnOneGetOneMoreTry(t *testing.T) {
	t.Parallel()
	f, wire, events := wired(t, nil, 1)
	for label, fault := range map[string]faultconn.Fault{
		"nothing is written": {Write: faultconn.Executes, Pass: faultconn.Nothing, Told: true},
		"nothing arrives":    atFinish(faultconn.Nothing, faultconn.Cut),
		"a part arrives":     atFinish(somewhereBefore, faultconn.Cut),
		"everything arrives": atFinish(nil, faultconn.Cut),
		"the answer is lost": atFinish(nil, faultconn.CutAtAnswer),
	} {
		for _, lose := range []bool{false, true} {
			wire.LoseCancels(lose)
			key := name(label, lose)
			conn, err := f.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			faultconn.Of(conn.Conn().PgConn().Conn()).Arm(fault)
			conn.Release()
			got, err := duplicate(f, request(key))
			if err != nil || got.Replayed || events.last(got.ID).Runs != 1 {
				t.Errorf("%s: got %+v, %v; want one run", key, got, err)
			}
		}
	}
	f.clean()
}

// What cuts one idle connection may cut all of them, and a pool that has just used them gives them out unseen (R11).
func TestRun_R11_AllIdleConnectionsAreCut(t *testing.T) {
	t.Parallel()
	f, _, _ := wired(t, nil, 4, func(cfg *pgxpool.Config) {
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	for label, call := range map[string]func(Request) (Result[string], error){
		"run": func(req Request) (Result[string], error) { return Run(t.Context(), f.store, req, writes(req.Key)) },
		"batch": func(req Request) (Result[string], error) {
			return RunBatch(t.Context(), f.store, req, func(_ context.Context, b *Batch) (string, error) {
				b.MustAffect(1, `insert into effect (intent) values ($1)`, req.Key)
				return "done", nil
			})
		},
		"leased": func(req Request) (Result[string], error) {
			return RunLeased(t.Context(), f.store, req, func(context.Context) (string, error) { return "done", nil }, nil)
		},
	} {
		f.cutIdle(4)
		if got, err := call(request(label)); err != nil || got.Replayed {
			t.Errorf("%s: got %+v, %v; want one run", label, got, err)
		}
	}
	f.clean()
}

// TestRun_R11_NewConnectionsFailAsWell: idle connections are tried as long as there are any, and then one new one. Here others take
// the idle ones meanwhile, and each new one is cut as soon as it is there.
func TestRun_R11_NewConnectionsFailAsWell(t *testing.T) {
	t.Parallel()
	var bad, taken atomic.Bool
	var made atomic.Int32
	var pool *pgxpool.Pool
	f, _, _ := wired(t, nil, 8, func(cfg *pgxpool.Config) {
		cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
			if bad.Load() {
				made.Add(1)
				faultconn.Of(conn.PgConn().Conn()).Cut()
			}
			return nil
		}
		cfg.ShouldPing = func(ctx context.Context, _ pgxpool.ShouldPingParams) bool {
			if bad.Load() && pool.Stat().IdleConns() < 7 && taken.CompareAndSwap(false, true) { // at the second try
				for _, conn := range pool.AcquireAllIdle(ctx) {
					defer conn.Release()
					_ = conn.Conn().Close(ctx)
				}
			}
			return false
		}
	})
	pool = f.pool
	f.cutIdle(8)
	bad.Store(true)
	_, err := Run(t.Context(), f.store, request("k"), writes("k"))
	bad.Store(false)
	if !errors.Is(err, ErrUnavailable) || !taken.Load() || made.Load() > 2 {
		t.Errorf("%v; %d new connections were made, want ErrUnavailable and at most 2; others had the idle ones: %v", err, made.Load(), taken.Load())
	}
	f.clean()
}

// cutIdle has the pool open n connections, and cuts all.
func (f *fixture) cutIdle(n int) {
	f.t.Helper()
	var conns []*pgxpool.Conn
	for range n {
		conn, err := f.pool.Acquire(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		faultconn.Of(conn.Conn().PgConn().Conn()).Cut()
		conn.Release()
	}
}
