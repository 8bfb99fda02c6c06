package txidem

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// wired is setup with a network that the test can break, and with an observer. Its effects say which run made them.
func wired(t testing.TB, policy *Policy, maxConns int32, changes ...func(*pgxpool.Config)) (*fixture, *faultconn.Dialer, *lastEvents) {
	t.Helper()
	wire := &faultconn.Dialer{}
	f := setup(t, policy, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = wire.DialFunc
		cfg.MaxConns = maxConns
		for _, change := range changes {
			change(cfg)
		}
	})
	t.Cleanup(wire.CutStalled) // in front of the pool's own closing, which waits for silent connections
	f.exec(`create table ran (intent text not null, run int not null)`)
	events := &lastEvents{}
	f.store.observer = events
	return f, wire, events
}

// wireOf is the wire under a handler's transaction.
func wireOf(tx pgx.Tx) *faultconn.Conn { return faultconn.Of(tx.Conn().PgConn().Conn()) }

// atFinish is a fault for the write that carries the record and COMMIT, to be armed when the handler is about to return.
func atFinish(pass func([]byte) int, then faultconn.Then) faultconn.Fault {
	return faultconn.Fault{Write: faultconn.Executes, Pass: pass, Then: then}
}

const sqlWriteRun = `insert into ran (intent, run) values ($1, $2)`

// writeRun is an effect that says which run made it.
func writeRun(ctx context.Context, tx pgx.Tx, intent string, run int) error {
	_, err := tx.Exec(ctx, sqlWriteRun, intent, run)
	return err
}

// ran returns which runs have left an effect, by intent, in order.
func (f *fixture) ran() map[string][]int { return f.ranLike("%") }

func (f *fixture) ranLike(intents string) map[string][]int {
	f.t.Helper()
	rows, err := f.pool.Query(f.t.Context(), `select intent, run from ran where intent like $1 order by run`, intents)
	if err != nil {
		f.t.Fatal(err)
	}
	found := make(map[string][]int)
	var intent string
	var run int
	if _, err := pgx.ForEachRow(rows, []any{&intent, &run}, func() error {
		found[intent] = append(found[intent], run)
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return found
}

// locks counts the advisory locks of the test's database, those that somebody waits for included.
func (f *fixture) locks() int {
	f.t.Helper()
	var n int
	if err := f.pool.QueryRow(f.t.Context(), `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// clean checks that nothing of the calls is left but what they committed.
func (f *fixture) clean() {
	f.t.Helper()
	f.idle()
	eventually(f.t, "no advisory lock is left", func() bool { return f.locks() == 0 })
	if n := f.store.waits.len(); n != 0 {
		f.t.Errorf("%d waits are left behind", n)
	}
	if n := f.store.reserve.Busy(); n != 0 {
		f.t.Errorf("%d reserved connections are in use", n)
	}
}

// lastEvents keeps the last event of each call.
type lastEvents struct{ of sync.Map }

func (l *lastEvents) Observe(_ context.Context, e Event) { l.of.Store(e.ID, e) }

func (l *lastEvents) last(id toolcall.ID) Event {
	e, _ := l.of.Load(id)
	event, _ := e.(Event)
	return event
}
