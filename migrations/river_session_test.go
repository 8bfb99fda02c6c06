package migrations

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestUp_ErrPooled_River: River's migrations, which do not look where they are,
// are not begun on the server connection that holds the lock.
func TestUp_ErrPooled_River(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	direct := newPool(t, cfg, nil)
	if err := Up(t.Context(), direct, &Config{NoRiver: true}); err != nil {
		t.Fatal(err)
	}
	pooled := poolTo(t, sharing(t, cfg.ConnConfig))
	err := Up(t.Context(), pooled, nil)
	if !errors.Is(err, ErrPooled) || !strings.HasPrefix(err.Error(), "migrations: the connection goes through a pooler") || strings.Count(err.Error(), "pg_terminate_backend(") != 1 {
		t.Errorf("Up: %v, want ErrPooled with the remedy", err)
	}
	if get[bool](t, direct, `select to_regclass('txonce_river.river_migration') is not null`) {
		t.Error("River's migrations were begun")
	}
	if err := Up(t.Context(), direct, nil); err != nil {
		t.Fatal(err)
	}
	wantRiver(t, direct, "txonce_river")
	if err := Up(t.Context(), pooled, nil); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
	if err := Down(t.Context(), pooled, nil); !errors.Is(err, ErrPooled) {
		t.Errorf("Down: %v, want ErrPooled", err)
	}
	wantRiver(t, direct, "txonce_river")
}

// TestSettle_LeavesNothingInAPooler: a setting made there would be others' too.
func TestSettle_LeavesNothingInAPooler(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "7min"
	pooled := cfg.ConnConfig.Copy()
	addr := pooler(t, cfg.ConnConfig, "none of them")
	pooled.Host, pooled.Port, pooled.Fallbacks, pooled.TLSConfig = addr.IP.String(), uint16(addr.Port), nil, nil
	for want, c := range map[string]*pgx.ConnConfig{"0": cfg.ConnConfig, "7min": pooled} {
		conn, err := pgx.ConnectConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := (&session{}).settle(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := conn.QueryRow(t.Context(), `show statement_timeout`, pgx.QueryExecModeExec).Scan(&got); err != nil || got != want {
			t.Errorf("statement_timeout is %s, %v; want %s", got, err, want)
		}
	}
}

// TestUp_StatementTimeout_River: ctx bounds River's migrations as well.
func TestUp_StatementTimeout_River(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	mustExec(t, newPool(t, cfg, nil), `create function public.slow() returns event_trigger language plpgsql as $$
		begin
			if exists (select from pg_event_trigger_ddl_commands() where object_identity = 'txonce_river.river_queue') then
				perform pg_sleep(0.5);
			end if;
		end $$;
		create event trigger slow on ddl_command_end execute function public.slow()`)
	pool := newPool(t, cfg, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["statement_timeout"] = "200ms" })
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Error(err)
	}
}

// TestPrepareRiver_OutlivesIdleness: the session that holds the lock says nothing
// for as long as one of River's migrations takes.
func TestPrepareRiver_OutlivesIdleness(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	cfg.ConnConfig.RuntimeParams["idle_session_timeout"] = "10min"
	s, err := open(t.Context(), newPool(t, cfg, one), nil, Files)
	if err != nil {
		t.Fatal(err)
	}
	defer s.conn.Release()
	err = s.locked(t.Context(), func() error {
		for name, prepare := range map[string]func() error{
			"Up":   func() error { return s.prepareRiver(t.Context(), riverState{}) },
			"Down": func() error { return s.dropRiver(t.Context()) },
		} {
			if _, err := s.conn.Exec(t.Context(), `reset idle_session_timeout`); err != nil {
				return err
			}
			if err := prepare(); err != nil {
				return err
			}
			var got string
			if err := s.conn.QueryRow(t.Context(), `show idle_session_timeout`).Scan(&got); err != nil || got != "0" {
				t.Errorf("%s: idle_session_timeout is %s, %v; want none", name, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestUp_J10_RiverHasOneConnectionMore: of the caller's kind, and for the time of the run.
func TestUp_J10_RiverHasOneConnectionMore(t *testing.T) {
	t.Parallel()
	role := newRole(t)
	cfg := newDB(t)
	owner := newPool(t, cfg, nil)
	mustExec(t, owner, `grant create on database `+cfg.ConnConfig.Database+` to `+role)
	pool := newPool(t, cfg, func(c *pgxpool.Config) {
		as(role)(c)
		c.MaxConns, c.MinConns = 5, 4
		c.ConnConfig.RuntimeParams["application_name"] = c.ConnConfig.Database + "_theirs"
	})
	eventually(t, "the pool is full", func() bool { return pool.Stat().TotalConns() == 4 })
	goOn := hangIn(t, cfg, `river_queue\y`)
	result := make(chan error, 1)
	go func() { result <- Up(t.Context(), pool, nil) }()
	sessions := func() int {
		return get[int](t, owner, `select count(*) from pg_stat_activity where application_name = $1`, cfg.ConnConfig.Database+"_theirs")
	}
	eventually(t, "River's migrations run", func() bool {
		return get[int](t, owner, `select count(*) from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`) == 1
	})
	if n := sessions(); n != 5 {
		t.Errorf("%d sessions while River's migrations run, want those of the pool and one", n)
	}
	goOn()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if got := get[string](t, owner, `select pg_get_userbyid(relowner) from pg_class where oid = 'txonce_river.river_job'::regclass`); got != role {
		t.Errorf("River's tables belong to %s, want the role that the pool's hook sets", got)
	}
	pool.Close()
	noSession(t, owner, cfg.ConnConfig.Database+"_theirs")
}

// TestExplainRiver_TooManyConnections names what is short.
func TestExplainRiver_TooManyConnections(t *testing.T) {
	t.Parallel()
	s := &session{cfg: Config{RiverSchema: "txonce_river"}}
	err := s.explainRiver(&pgconn.PgError{Code: "53300"})
	if !strings.Contains(err.Error(), "one connection beside that of the pool") {
		t.Errorf("too many connections: %v", err)
	}
}
