package versions

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/migrations"
)

// processes is how many boot at once.
const processes = 5

// What a process that boots finds in its environment.
const (
	envChild    = "TXONCE_VERSIONS_CHILD" // its name in the server's list of sessions
	envURL      = "TXONCE_VERSIONS_URL"
	envDatabase = "TXONCE_VERSIONS_DATABASE"
)

// child is a process that boots: it waits for the word, migrates, and prints what it does.
func child() int {
	err := func() error {
		cfg, err := pgxpool.ParseConfig(os.Getenv(envURL))
		if err != nil {
			return err
		}
		cfg.ConnConfig.Database = os.Getenv(envDatabase)
		cfg.ConnConfig.RuntimeParams["application_name"] = os.Getenv(envChild)
		pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
		if err != nil {
			return err
		}
		defer pool.Close()
		if _, err := io.ReadAll(os.Stdin); err != nil {
			return err
		}
		return migrations.Up(context.Background(), pool, &migrations.Config{Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fleet is processes that boot at once.
type fleet struct {
	t   *testing.T
	all map[string]*exec.Cmd
	mu  sync.Mutex
	log []string
	out sync.WaitGroup
}

// boot starts them, and gives all of them the word.
func boot(t *testing.T, s *servers.Server, database string) *fleet {
	t.Helper()
	f := &fleet{t: t, all: make(map[string]*exec.Cmd)}
	var words []io.Closer
	for n := range processes {
		name := fmt.Sprintf("%s_%d", database, n)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envChild+"="+name, envURL+"="+s.URL(), envDatabase+"="+database)
		cmd.Stderr = os.Stderr
		word, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close() // the process has its own
		words = append(words, word)
		f.all[name] = cmd
		f.out.Go(func() { f.read(out) })
	}
	for _, word := range words {
		_ = word.Close()
	}
	return f
}

func (f *fleet) read(out io.ReadCloser) {
	defer func() { _ = out.Close() }()
	for s := bufio.NewScanner(out); s.Scan(); {
		f.mu.Lock()
		f.log = append(f.log, s.Text())
		f.mu.Unlock()
	}
}

// end waits for all, and checks that each has succeeded but those that were killed.
func (f *fleet) end(killed ...string) {
	f.t.Helper()
	for name, cmd := range f.all {
		if err := cmd.Wait(); (err != nil) != (len(killed) > 0 && killed[0] == name) {
			f.t.Errorf("process %s: %v; killed were %q", name, err, killed)
		}
	}
	f.out.Wait()
}

// applied counts the files that they have applied, together.
func (f *fleet) applied() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.log {
		if strings.Contains(line, "done") {
			n++
		}
	}
	return n
}

// TestMigrations_D07_FiveProcessesBootAtOnce on an empty database, and on each version with data in it.
func TestMigrations_D07_FiveProcessesBootAtOnce(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		for version := range latest(t) {
			t.Run(fmt.Sprintf("from %d", version), func(t *testing.T) {
				t.Parallel()
				s := server(t, place)
				name := database(t, s)
				db := pool(t, s, name)
				old := at(t, db, version)
				f := boot(t, s, name)
				f.end()
				if n, want := f.applied(), int(latest(t)-version); n != want {
					t.Errorf("%d files were applied by %d processes, want %d", n, processes, want)
				}
				old.goesOn(t, db)
			})
		}
	})
}

// TestMigrations_D07_FiveProcessesBootWhileCallsRun: those that run are answered, and the schema is the latest then.
func TestMigrations_D07_FiveProcessesBootWhileCallsRun(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		s := server(t, place)
		name := database(t, s)
		db := pool(t, s, name)
		old := at(t, db, latest(t)-1) // whose calls are those of the latest
		do(t, db, sqlTable)
		a := newApp(t, db)
		over := make(chan struct{})
		var calls sync.WaitGroup
		var made, answered atomic.Int64
		end := sync.OnceFunc(func() {
			close(over)
			calls.Wait()
		})
		defer end()
		for range 4 {
			calls.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					key := fmt.Sprint(made.Add(1))
					if got, err := a.call(t.Context(), toolWrite, key); err != nil || got.Replayed {
						t.Errorf("call %s: %+v, %v", key, got, err)
					}
					answered.Add(1)
				}
			})
		}
		eventually(t, "calls are answered before the boot", func() bool { return answered.Load() > 0 })
		f := boot(t, s, name)
		f.end()
		during := made.Load()
		eventually(t, "calls are answered behind the boot", func() bool { return answered.Load() > during })
		end()
		if n := f.applied(); n != 1 {
			t.Errorf("%d files were applied, want 1", n)
		}
		if n := get[int64](t, db, `select count(*) from effect`); n != made.Load() {
			t.Errorf("%d effects of %d calls", n, made.Load())
		}
		old.goesOn(t, db)
	})
}

// TestMigrations_D07_KilledInTheMiddle: of five processes the one that migrates is killed inside a file, and another one goes on.
func TestMigrations_D07_KilledInTheMiddle(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		s := server(t, place)
		name := database(t, s)
		db := pool(t, s, name)
		old := at(t, db, 1)
		goOn := hang(t, s, name, `txonce.job`)
		f := boot(t, s, name)
		var who string
		eventually(t, "one process is in the middle", func() bool {
			who = get[string](t, db, `select coalesce(max(application_name), '') from pg_stat_activity
				where datname = current_database() and application_name <> '' and wait_event_type = 'Lock' and wait_event = 'advisory'`)
			return who != ""
		})
		if err := f.all[who].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its session ends", func() bool {
			return get[int](t, db, `select count(*) from pg_stat_activity where application_name = $1`, who) == 0
		})
		if n := get[int](t, db, `select count(*) from pg_class where oid = to_regclass('txonce.job')`); n != 0 {
			t.Error("what was cut off is there")
		}
		goOn()
		f.end(who)
		old.goesOn(t, db)
	})
}

// hang has everyone who makes the object wait in the middle of it, until go on is called.
func hang(t *testing.T, s *servers.Server, database, object string) (goOn func()) {
	t.Helper()
	cfg := pool(t, s, database).Config().ConnConfig
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		`select pg_advisory_lock(1)`,
		`create function public.hang() returns event_trigger language plpgsql as $$
			begin
				if exists (select from pg_event_trigger_ddl_commands() where object_identity = '` + object + `') then
					perform pg_advisory_xact_lock_shared(1);
				end if;
			end $$`,
		`create event trigger hang on ddl_command_end execute function public.hang()`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return func() {
		if _, err := conn.Exec(t.Context(), `select pg_advisory_unlock(1)`); err != nil {
			t.Error(err)
		}
	}
}
