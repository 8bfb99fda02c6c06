package handlertx

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// begin opens a transaction and guards it.
func begin(t *testing.T) (tx pgx.Tx, w *Watch, conn *pgx.Conn) {
	t.Helper()
	c, err := dbtest.Pool(t, nil).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	inner, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, w = New(nil, c.Conn(), inner, time.Now())
	return tx, w, c.Conn()
}

// TestCallOf_O01_IsTheHandlersTxOnly: what is queued for the end of the call does not go with a savepoint.
func TestCallOf_O01_IsTheHandlersTxOnly(t *testing.T) {
	t.Parallel()
	_, _, conn := begin(t)
	inner, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call := &toolcall.Call{}
	tx, _ := New(call, conn, inner, time.Now())
	if got, ok := CallOf(tx); !ok || got != call {
		t.Errorf("the handler's tx is of %v, %v", got, ok)
	}
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	without, _ := New(nil, conn, inner, time.Now())
	for label, other := range map[string]pgx.Tx{"a savepoint": savepoint, "a bare one": inner, "one without a call": without, "none": nil} {
		if got, ok := CallOf(other); ok || got != nil {
			t.Errorf("%s is taken for that of %v", label, got)
		}
	}
}

// TestStandIn_R22_IsTheHandlersTx: where there is no database, a test's tx stands for that of the call, and is not the handler's to end.
func TestStandIn_R22_IsTheHandlersTx(t *testing.T) {
	t.Parallel()
	call := &toolcall.Call{}
	tx := &StandIn{Call: call}
	if got, ok := CallOf(tx); !ok || got != call {
		t.Errorf("it is of %v, %v", got, ok)
	}
	if _, ok := CallOf(&StandIn{}); ok {
		t.Error("one without a call is taken for that of a call")
	}
	if c, r := tx.Commit(t.Context()), tx.Rollback(t.Context()); !errors.Is(c, ErrManaged) || !errors.Is(r, ErrManaged) {
		t.Errorf("Commit gives %v, Rollback %v", c, r)
	}
}

func TestTx_R10_IsNotTheHandlersToEnd(t *testing.T) {
	t.Parallel()
	tx, w, conn := begin(t)
	if c, r := tx.Commit(t.Context()), tx.Rollback(t.Context()); !errors.Is(c, ErrManaged) || !errors.Is(r, ErrManaged) || conn.PgConn().TxStatus() != 'T' {
		t.Errorf("Commit gives %v, Rollback %v, the transaction is %q", c, r, conn.PgConn().TxStatus())
	}
	if _, can := tx.(interface{ End() }); can {
		t.Error("the watch can be ended through the tx")
	}
	if w.Ended() {
		t.Error("it counts as ended")
	}
}

// TestTx_R10_IsOfNoUseBehindTheEnd goes through all that can be asked of a tx, and of a savepoint in it.
func TestTx_R10_IsOfNoUseBehindTheEnd(t *testing.T) {
	t.Parallel()
	tx, w, _ := begin(t)
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := savepoint.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(inner.Rollback(t.Context()), savepoint.Commit(t.Context())); err != nil {
		t.Fatalf("savepoints are the handler's to end: %v", err)
	}
	if savepoint, err = tx.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.End()
	for name, tx := range map[string]pgx.Tx{"tx": tx, "savepoint": savepoint} {
		for label, use := range uses(t.Context(), tx) {
			if err := use(); !errors.Is(err, ErrOver) {
				t.Errorf("%s, %s: %v, want ErrOver", name, label, err)
			}
		}
	}
	if c, r := savepoint.Commit(t.Context()), savepoint.Rollback(t.Context()); !errors.Is(c, ErrOver) || !errors.Is(r, ErrOver) {
		t.Errorf("the savepoint's Commit gives %v, Rollback %v", c, r)
	}
	if w.Ended() {
		t.Error("what was refused ended the transaction")
	}
}

func uses(ctx context.Context, tx pgx.Tx) map[string]func() error {
	return map[string]func() error{
		"Begin": func() error { _, err := tx.Begin(ctx); return err },
		"Exec":  func() error { _, err := tx.Exec(ctx, "select 1"); return err },
		"Query": func() error {
			rows, err := tx.Query(ctx, "select 1")
			rows.Close()
			return errors.Join(err, rows.Err())
		},
		"QueryRow": func() error { return tx.QueryRow(ctx, "select 1").Scan(nil) },
		"Prepare":  func() error { _, err := tx.Prepare(ctx, "p", "select 1"); return err },
		"CopyFrom": func() error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"a"}, pgx.CopyFromRows(nil))
			return err
		},
		"SendBatch": func() error { b := &pgx.Batch{}; b.Queue("commit"); return tx.SendBatch(ctx, b).Close() },
	}
}

// TestWatch_R10_TransactionThatIsEndedBySQLIsFoundOut: by each of the ways to send it, also where an error hides it.
func TestWatch_R10_TransactionThatIsEndedBySQLIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"commit", "rollback", "commit and chain", "select 1; commit; select 1/0", "commit; begin; select 1/0", "select 1"} {
		for label, send := range map[string]func(pgx.Tx){
			"Exec":     func(tx pgx.Tx) { _, _ = tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol) },
			"Query":    func(tx pgx.Tx) { rows, _ := tx.Query(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); rows.Close() },
			"QueryRow": func(tx pgx.Tx) { _ = tx.QueryRow(t.Context(), sql, pgx.QueryExecModeSimpleProtocol).Scan(nil) },
			"savepoint": func(tx pgx.Tx) {
				inner, _ := tx.Begin(t.Context())
				_, _ = inner.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			},
		} {
			if sql == "rollback" && label != "Exec" && label != "savepoint" {
				continue // it undid what was written, and is not looked for
			}
			t.Run(strings.ReplaceAll(label+" "+sql, "/", "by"), func(t *testing.T) {
				t.Parallel()
				tx, w, conn := begin(t)
				send(tx)
				_, _ = conn.Exec(t.Context(), "begin") // which a look at the connection would take for the one that was there
				if w.End(); w.Ended() != (sql != "select 1") {
					t.Errorf("ended is %v", w.Ended())
				}
			})
		}
	}
}

// slowRows are rows that come when the test says so.
type slowRows struct{ there, goOn chan struct{} }

func (s *slowRows) Next() bool {
	close(s.there)
	<-s.goOn
	return false
}
func (*slowRows) Values() ([]any, error) { return nil, io.EOF }
func (*slowRows) Err() error             { return nil }

// TestWatch_R10_EndWaitsForAStatementUnderWay: what a goroutine of the handler's is sending is part of the transaction.
func TestWatch_R10_EndWaitsForAStatementUnderWay(t *testing.T) {
	t.Parallel()
	tx, w, _ := begin(t)
	if _, err := tx.Exec(t.Context(), `create temporary table t (a int)`); err != nil {
		t.Fatal(err)
	}
	rows := &slowRows{make(chan struct{}), make(chan struct{})}
	sent, ended := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := tx.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"a"}, rows)
		sent <- err
	}()
	<-rows.there
	go func() { w.End(); close(ended) }()
	for deadline := time.Now().Add(time.Minute); w.using.TryRLock(); { // until End is waiting
		if w.using.RUnlock(); time.Now().After(deadline) {
			t.Error("End does not wait for the statement")
			break
		}
	}
	select {
	case <-ended:
		t.Error("it did not wait")
	default:
	}
	if _, err := tx.Exec(t.Context(), "select 1"); !errors.Is(err, ErrOver) {
		t.Errorf("beside End: %v, want ErrOver", err)
	}
	close(rows.goOn)
	if err := <-sent; err != nil {
		t.Errorf("the statement under way: %v", err)
	}
	<-ended
}

func TestWatch_R20_LongestRestCounts(t *testing.T) {
	t.Parallel()
	conn, err := dbtest.Pool(t, nil).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	inner, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, w := New(nil, conn.Conn(), inner, time.Now().Add(-time.Hour))
	for range 2 {
		if _, err := tx.Exec(t.Context(), "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	if w.End(); w.Idle() < time.Hour || w.Idle() > 2*time.Hour {
		t.Errorf("the longest rest is %v, want an hour", w.Idle())
	}
	_, late := New(nil, conn.Conn(), inner, time.Now().Add(-time.Hour))
	if late.End(); late.Idle() < time.Hour {
		t.Errorf("without a statement the longest rest is %v, want an hour", late.Idle())
	}
}

func TestSettingArgs_R20_UnitsAndBounds(t *testing.T) {
	t.Parallel()
	for idle, want := range map[time.Duration][2]string{
		10 * time.Millisecond: {"10", "1"}, 30 * time.Second: {"30000", "10"}, 24 * time.Hour: {"86400000", "28800"},
	} {
		if ms, probe := SettingArgs(idle); ms != want[0] || probe != want[1] {
			t.Errorf("%v: %s ms, %s s; want %v", idle, ms, probe, want)
		}
	}
}
