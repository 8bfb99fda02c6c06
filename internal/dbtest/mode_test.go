package dbtest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestMain(m *testing.M) { Main(m) }

func TestParseWay_R17(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, pooler string
		want         way
		err          string
	}{
		{"", "", way{exec: pgx.QueryExecModeCacheStatement}, ""},
		{"exec", "", way{exec: pgx.QueryExecModeExec, name: "exec"}, ""},
		{"cache_describe", "pgbouncer", way{exec: pgx.QueryExecModeCacheDescribe, name: "cache_describe", pooled: true}, ""},
		{"simple_protocol", "pgbouncer", way{exec: pgx.QueryExecModeSimpleProtocol, name: "simple_protocol", pooled: true}, ""},
		{"cache_statement", "", way{}, EnvExecMode + ` is "cache_statement"; set it to exec`},
		{"exec", "odyssey", way{}, EnvPooler + ` is "odyssey"; set it to pgbouncer`},
		{"", "pgbouncer", way{}, "set " + EnvExecMode + " as well"},
	} {
		got, err := parseWay(func(name string) string { return map[string]string{EnvExecMode: c.mode, EnvPooler: c.pooler}[name] })
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q, %q: got %+v, %v; want %+v", c.mode, c.pooler, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q, %q: got %v, want an error with %q", c.mode, c.pooler, err, c.err)
		}
	}
}

// TestPool_R17_GoesTheWayOfTheEnvironment asks the server, whatever the environment says.
func TestPool_R17_GoesTheWayOfTheEnvironment(t *testing.T) {
	t.Parallel()
	pool := Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	w, err := theWay()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if got := conn.Conn().Config().DefaultQueryExecMode; got != w.exec {
		t.Errorf("the pool executes in mode %s, want %s", got, w.exec)
	}
	// A pooler invents the process ids that it tells its clients.
	var pid uint32
	if err := conn.QueryRow(t.Context(), `select pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if pooled := pid != conn.Conn().PgConn().PID(); pooled != w.pooled || pooled != Pooled() {
		t.Errorf("pooled: %v, want %v", pooled, w.pooled)
	}
}
