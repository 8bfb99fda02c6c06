package dbtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What the environment may say of the way to the server. Empty is pgx's own way, without a pooler.
const (
	EnvExecMode = "TXONCE_TEST_EXEC_MODE"
	EnvPooler   = "TXONCE_TEST_POOLER"
)

// way is how the pools of this process execute.
type way struct {
	exec   pgx.QueryExecMode
	name   string // of exec, "" for pgx's default
	pooled bool
}

var theWay = sync.OnceValues(func() (way, error) { return parseWay(os.Getenv) })

func parseWay(getenv func(string) string) (way, error) {
	w := way{name: getenv(EnvExecMode), exec: pgx.QueryExecModeCacheStatement}
	switch w.name {
	case "":
	case "exec":
		w.exec = pgx.QueryExecModeExec
	case "cache_describe":
		w.exec = pgx.QueryExecModeCacheDescribe
	case "simple_protocol":
		w.exec = pgx.QueryExecModeSimpleProtocol
	default:
		return w, fmt.Errorf("dbtest: %s is %q; set it to exec, cache_describe or simple_protocol, or unset it", EnvExecMode, w.name)
	}
	switch pooler := getenv(EnvPooler); {
	case pooler == "":
	case pooler != "pgbouncer":
		return w, fmt.Errorf("dbtest: %s is %q; set it to pgbouncer, or unset it", EnvPooler, pooler)
	case w.name == "":
		return w, fmt.Errorf("dbtest: %s is set, but pgx's default prepares statements, which a pooler in transaction mode loses; set %s as well", EnvPooler, EnvExecMode)
	default:
		w.pooled = true
	}
	return w, nil
}

// apply gives the pool its way to the server.
func apply(ctx context.Context, cfg *pgxpool.Config) error {
	w, err := theWay()
	if err != nil {
		return err
	}
	if w.name != "" {
		cfg.ConnConfig.DefaultQueryExecMode = w.exec
	}
	if !w.pooled {
		return nil
	}
	p, err := poolers.inFrontOf(ctx, cfg)
	if err != nil {
		return err
	}
	p.Route(&cfg.ConnConfig.Config)
	return nil
}

// Pooled reports whether pools go through a pooler in transaction mode.
func Pooled() bool {
	w, err := theWay()
	return err == nil && w.pooled
}

// SkipPooled skips the test where pools go through a pooler in transaction mode, for the reason that is given: which
// assumption of the test does not hold there.
func SkipPooled(t testing.TB, reason string) {
	t.Helper()
	if Pooled() {
		t.Skip("through a pooler: " + reason)
	}
}

// SkipPreparing skips the test where pools go through a pooler in transaction mode and mode is one that needs the same
// session for two round trips: pgx documents it as unusable there.
func SkipPreparing(t testing.TB, mode pgx.QueryExecMode) {
	t.Helper()
	if mode == pgx.QueryExecModeCacheStatement || mode == pgx.QueryExecModeDescribeExec {
		SkipPooled(t, strings.ReplaceAll(mode.String(), " ", "_")+" needs a session of its own, as pgx says")
	}
}
