package migrations

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// inTheMiddle is a file that says so and then takes longer than any test.
const inTheMiddle = `create table second (n int);
do $$ begin raise notice 'in the middle'; end $$;
select pg_sleep(600);`

// child is the main function of a child process. It prints what it does.
func child(mode string) int {
	cfg, err := pgxpool.ParseConfig(os.Getenv(envURL))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cfg.ConnConfig.Database = os.Getenv(envDatabase)
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { fmt.Println(n.Message) }
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer pool.Close()
	var fsys fs.FS = Files
	if mode == "hang" {
		fsys = fstest.MapFS{
			filesDir + "/000001_first.up.sql":  {Data: []byte(`create table first (n int)`)},
			filesDir + "/000002_second.up.sql": {Data: []byte(inTheMiddle)},
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	if err := up(context.Background(), pool, &Config{Logger: log}, fsys); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
