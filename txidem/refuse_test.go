package txidem

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// unreachable is a store whose database is not there.
func unreachable(t *testing.T) *Store {
	t.Helper()
	store, err := New(dbtest.PoolAt(t, "postgres://nobody@"+closedPort(t)+"/none", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNew_NamesTheBadField(t *testing.T) {
	t.Parallel()
	pool := dbtest.PoolAt(t, "postgres://127.0.0.1:1/none", nil)
	if _, err := New(nil, nil); err == nil || !strings.Contains(err.Error(), "pgxpool.New") {
		t.Errorf("no pool: %v", err)
	}
	for field, cfg := range map[string]*Config{
		"Config.Schema":        {Schema: `bad"name`},
		"Policy.Window":        {Policy: &Policy{Window: -1}},
		"Policy.Retention":     {Policy: &Policy{Retention: time.Microsecond}},
		"Policy.IdleInTx":      {Policy: &Policy{IdleInTx: 25 * time.Hour}},
		"Policy.CommitTimeout": {Policy: &Policy{CommitTimeout: -time.Second}},
		"Policy.Isolation":     {Policy: &Policy{Isolation: "chaos"}},
		"Policy.Attempts":      {Policy: &Policy{Attempts: -1}},
		"Policy.MaxAnswer":     {Policy: &Policy{MaxAnswer: 17 << 20}},
	} {
		if _, err := New(pool, cfg); err == nil || !strings.HasPrefix(err.Error(), "txidem: "+field) {
			t.Errorf("%s: got %v, want an error that names it", field, err)
		}
	}
	store, err := New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := request("k")
	req.Policy = &Policy{Attempts: 1000}
	if _, err := Run(t.Context(), store, req, writes("x")); err == nil || !strings.HasPrefix(err.Error(), ErrPolicy.Error()+": Policy.Attempts") {
		t.Errorf("a request's policy: got %v", err)
	}
}

func TestRun_R15_NoDatabaseIsAClearRetryableError(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), unreachable(t), request("k"), writes("never"))
	if !errors.Is(err, ErrUnavailable) || !Retryable(err) {
		t.Errorf("got %v, want ErrUnavailable, retryable", err)
	}
}

func TestRun_MissingMigrationNamesTheRemedy(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`drop table txonce.call`)
	_, err := Run(t.Context(), f.store, request("k"), writes("never"))
	if !errors.Is(err, ErrNotMigrated) || !strings.Contains(err.Error(), "migrations.Up") || Retryable(err) {
		t.Errorf("no table: got %v", err)
	}
	other, err := New(f.pool, &Config{Schema: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), other, request("k"), writes("never")); !errors.Is(err, ErrNotMigrated) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("no schema: got %v", err)
	}
	f.idle()
}

func TestRun_D08_MissingGrantNamesTheRemedy(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	owner := ""
	if err := f.pool.QueryRow(t.Context(), `select current_user`).Scan(&owner); err != nil {
		t.Fatal(err)
	}
	for _, privilege := range []string{"insert", "select"} {
		f.exec(`revoke ` + privilege + ` on txonce.call from ` + owner)
		_, err := Run(t.Context(), f.store, request("k"), writes("k"))
		if !errors.Is(err, ErrPermission) || Retryable(err) || f.effects("k") != 0 {
			t.Errorf("without %s: %v, %d effects", privilege, err, f.effects("k"))
		}
	}
}

func TestRun_ServerTooOldSaysWhichIsNeeded(t *testing.T) {
	t.Parallel()
	store, err := New(dbtest.PoolAt(t, "postgres://u@"+serverOfVersion(t, "13.4 (Debian 13.4-1)")+"/d?sslmode=disable", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), store, request("k"), writes("never"))
	if !errors.Is(err, ErrServerTooOld) || !strings.Contains(err.Error(), "13.4") || !strings.Contains(err.Error(), "14") {
		t.Errorf("got %v", err)
	}
}

// serverOfVersion accepts connections, says its version and nothing else.
func serverOfVersion(t *testing.T, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go greet(conn, version)
		}
	}()
	return l.Addr().String()
}

func greet(conn net.Conn, version string) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if backend.Flush() != nil {
		return
	}
	for { // until the client is gone
		if _, err := backend.Receive(); err != nil {
			return
		}
	}
}

func TestCheckServer(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{
		"14.0": true, "15.18 (Debian 15.18-0+deb12u1)": true, "17beta2": true, "9.6.24": false, "13.23": false, "": true, "devel": true,
	} {
		if err := checkServer(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestRun_R09_CallerThatIsGoneBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, f.store, request("k"), writes("k")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want context.Canceled and no complaint about the database", err)
	}
	if n := f.records(); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestRun_StalePlansSurviveAMigration(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil { // caches the plans
		t.Fatal(err)
	}
	f.exec(`alter table txonce.call alter column canon type integer`)
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || !got.Replayed {
		t.Errorf("R11: got %+v, %v; want a replay by one retry", got, err)
	}
}
