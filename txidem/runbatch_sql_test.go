package txidem

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

var batchModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// inMode returns a fixture whose connections execute in the mode. It skips the test where the mode is of no use.
func inMode(t *testing.T, mode pgx.QueryExecMode) *fixture {
	t.Helper()
	dbtest.SkipPreparing(t, mode)
	return setup(t, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
}

// fast lets a tool try one round trip again, after a fall-back.
func (f *fixture) fast() {
	f.store.slow.mu.Lock()
	defer f.store.slow.mu.Unlock()
	f.store.slow.until = nil
}

// queuesSQL returns a handler that queues an effect, the statements and another effect.
func queuesSQL(intent string, statements ...string) func(context.Context, *Batch) (string, error) {
	return func(_ context.Context, b *Batch) (string, error) {
		b.Queue(`insert into effect (intent) values ($1)`, intent)
		for _, sql := range statements {
			b.Queue(sql)
		}
		b.Queue(`insert into effect (intent) values ($1)`, intent)
		return "done", nil
	}
}

// endings are statements that would end the transaction, or hide one that does.
var endings = []string{
	"commit", "COMMIT;", "end", "rollback", "abort", "begin", "start transaction", "savepoint a", "release savepoint a",
	"rollback to savepoint a", "commit and chain", "rollback and chain", "prepare transaction 'a'", "commit prepared 'a'",
	"copy effect from stdin", "/* /* a */ b */ commit", "-- a\ncommit", ";commit", " \t\n;; commit ;;", "",
	"select 1; commit", "select 1; select 2", "commit; begin",
	"select 1 a$x$; commit; select 1 b$x$", "select 1 -- a\r; commit", "select e'a'\n'\\' '; commit; select '1'",
	"select $\u2026$ ' $\u2026$; commit; select '1'",
}

func TestRunBatch_R10_R18_TransactionControlIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range batchModes {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			f := inMode(t, mode)
			for _, sql := range endings {
				for way, handler := range map[string]func(context.Context, *Batch) (string, error){
					"queued":      queuesSQL("k", sql),
					"must affect": func(_ context.Context, b *Batch) (string, error) { b.MustAffect(1, sql); return "", nil },
					"at finish": func(ctx context.Context, b *Batch) (string, error) {
						b.Queue(`insert into effect (intent) values ('k')`)
						return "", queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(sql) })
					},
				} {
					got, err := RunBatch(t.Context(), f.store, request("k"), handler)
					if !errors.Is(err, ErrBatchSQL) || Retryable(err) || got.Raw != nil {
						t.Errorf("%q, %s: %+v, %v; want ErrBatchSQL", sql, way, got, err)
					}
					f.fast()
				}
			}
			if f.effects("k") != 0 || f.records() != 0 {
				t.Errorf("%d effects, %d records", f.effects("k"), f.records())
			}
			f.clean()
		})
	}
}

// TestRunBatch_R10_WhatLooksLikeItIsNot has the words in other places.
func TestRunBatch_R10_WhatLooksLikeItIsNot(t *testing.T) {
	t.Parallel()
	for _, mode := range batchModes {
		t.Run(name(mode), func(t *testing.T) {
			f := inMode(t, mode)
			f.exec(`create table "commit" ("end" text)`)
			_, err := RunBatch(t.Context(), f.store, request("k"), queuesSQL("k", `insert into "commit" ("end") values ('rollback; commit') -- ; commit`,
				`select case when true then 1 end`, `select $$;commit$$, $a$;$$;$a$, e'\';' /* ; commit */;`))
			if err != nil {
				t.Error(err)
			}
			f.effectsAre(map[string]int{"k": 2})
		})
	}
}

// TestRunBatch_R18_MustAffect goes through the numbers of rows and the spellings.
func TestRunBatch_R18_MustAffect(t *testing.T) {
	t.Parallel()
	for _, mode := range batchModes {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			f := inMode(t, mode)
			f.exec(`create table stock (item text primary key, n int not null)`)
			f.exec(`insert into stock values ('a', 5), ('b', 5), ('c', 0)`)
			for label, c := range map[string]struct {
				rows int64
				sql  string
				args []any
				ok   bool
			}{
				"one":               {1, `update stock set n = n - 1 where item = $1`, []any{"a"}, true},
				"too few":           {2, `update stock set n = n - 1 where item = $1`, []any{"a"}, false},
				"too many":          {1, `update stock set n = n - 1 where item <> $1`, []any{"a"}, false},
				"none where one":    {1, `update stock set n = n - 1 where item = $1 and n > 0`, []any{"c"}, false},
				"none":              {0, `delete from stock where item = $1`, []any{"x"}, true},
				"some where none":   {0, `delete from stock where item = $1`, []any{"a"}, false},
				"insert":            {1, `insert into stock values ($1, 1)`, []any{"insert " + mode.String()}, true},
				"do nothing":        {1, `insert into stock values ($1, 1) on conflict do nothing`, []any{"a"}, false},
				"semicolon":         {1, `update stock set n = n where item = 'a' ; `, nil, true},
				"comment behind":    {1, `update stock set n = n where item = 'a' -- the one`, nil, true},
				"comments":          {1, `/* this */ update stock -- that; and` + "\n" + `set n = n /* or; that */ where item = 'a'; -- end`, nil, true},
				"with":              {2, `with few as (select item from stock where n = 0) update stock set n = n where not exists (select from few where few.item = stock.item) and item in ('a', 'b')`, nil, true},
				"with, too few":     {3, `with few as (select item from stock where n = 0) update stock set n = n where item in (select item from few)`, nil, false},
				"braces in a value": {1, `update stock set n = n where item = 'a' and '{want}{sql}{schema}' <> ''`, nil, true},
			} {
				got, err := RunBatch(t.Context(), f.store, request(label), func(_ context.Context, b *Batch) (string, error) {
					b.Queue(`insert into effect (intent) values ($1)`, label)
					b.MustAffect(c.rows, c.sql, c.args...)
					return "done", nil
				})
				if want := error(nil); c.ok && (err != nil || got.Value != "done" || f.effects(label) != 1) {
					t.Errorf("%s: %+v, %v, %d effects; want %v", label, got, err, f.effects(label), want)
				}
				if !c.ok && (!errors.Is(err, ErrRowCount) || Retryable(err) || f.effects(label) != 0) {
					t.Errorf("%s: %+v, %v, %d effects; want ErrRowCount", label, got, err, f.effects(label))
				}
			}
			var n int
			if err := f.pool.QueryRow(t.Context(), `select n from stock where item = 'a'`).Scan(&n); err != nil || n != 4 {
				t.Errorf("stock is %d, %v; want 4", n, err)
			}
			f.clean()
		})
	}
}

// TestRunBatch_R11_UsersErrorsAreTheUsers are their own, in each mode, and leave nothing.
func TestRunBatch_R11_UsersErrorsAreTheUsers(t *testing.T) {
	t.Parallel()
	for _, mode := range batchModes {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			f := inMode(t, mode)
			f.exec(`create table once (a int primary key, b int constraint later unique deferrable initially deferred)`)
			f.exec(`insert into once values (1, 1)`)
			for label, c := range map[string]struct{ sql, code string }{
				"unique":        {`insert into once values (1, 2)`, codeUniqueViolation},
				"deferred":      {`insert into once values (2, 1)`, codeUniqueViolation},
				"syntax":        {`insort into once values (2, 2)`, "42601"},
				"missing table": {`insert into nowhere values (2, 2)`, codeUndefinedTable},
				"division":      {`select 1/(select 0)`, "22012"},
				"raised":        {`do $$ begin raise sqlstate 'AB123'; end $$`, "AB123"},
				"not in a tx":   {`vacuum once`, "25001"},
				"procedure":     {`do $$ begin commit; end $$`, "2D000"},
			} {
				got, err := RunBatch(t.Context(), f.store, request(label), queuesSQL("k", c.sql))
				if !hasCode(err, c.code) || errors.Is(err, ErrNotMigrated) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || got.Raw != nil {
					t.Errorf("%s: %+v, %v; want the user's %s", label, got, err, c.code)
				}
				f.fast()
			}
			if f.effects("k") != 0 || f.records() != 0 {
				t.Errorf("%d effects, %d records", f.effects("k"), f.records())
			}
			f.clean()
		})
	}
}

// TestRunBatch_R15_SetUpIsNamed has a schema that is not there, and rights that are missing.
func TestRunBatch_R15_SetUpIsNamed(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`revoke insert on txonce.call from current_user`)
	if _, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); !errors.Is(err, ErrPermission) {
		t.Errorf("without the right to insert: %v", err)
	}
	f.exec(`drop table txonce.call`)
	f.fast()
	if _, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); !errors.Is(err, ErrNotMigrated) || Retryable(err) {
		t.Errorf("without the table: %v", err)
	}
	f.effectsAre(map[string]int{"k": 0})
	if _, err := RunBatch(t.Context(), unreachable(t), request("k"), queues("k")); !errors.Is(err, ErrUnavailable) || !Retryable(err) {
		t.Errorf("without a server: %v", err)
	}
}

func TestRunBatch_R18_ArgumentsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for label, args := range map[string][]any{
		"encode": {make(chan int)}, "count": {1, 2}, "many": make([]any, 65536), "none": nil,
	} {
		for _, way := range []string{"batch", "run"} {
			var err error
			start := time.Now()
			if way == "batch" {
				_, err = RunBatch(t.Context(), f.store, request(label), func(_ context.Context, b *Batch) (string, error) {
					b.Queue(`insert into effect (intent) values ($1)`, args...)
					return "x", nil
				})
			} else {
				_, err = Run(t.Context(), f.store, request(label), func(ctx context.Context, _ pgx.Tx) (string, error) {
					return "x", queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(`insert into effect (intent) values ($1)`, args...) })
				})
			}
			t.Logf("%s %s: retryable %v unknown %v unavailable %v %v: %.200v", label, way, Retryable(err), errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrUnavailable), time.Since(start), err)
			if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("%s %s: %.200v", label, way, err)
			}
		}
	}
	f.idle()
}

type rewrites string

func (r rewrites) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

func TestRunBatch_R18_RewriterCannotEndTheTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, end := range []string{"commit", "rollback"} {
		for range 2 {
			r, err := RunBatch(t.Context(), f.store, request(end), func(_ context.Context, b *Batch) (string, error) {
				b.Queue(`insert into effect (intent) values ($1)`, end)
				b.Queue(`select 1`, rewrites(end))
				b.Queue(`insert into effect (intent) values ($1)`, end)
				return "x", nil
			})
			if !errors.Is(err, ErrBatchSQL) || Retryable(err) || f.effects(end) != 0 || f.records() != 0 {
				t.Errorf("%s: %+v, %v; %d effects, %d records", end, r, err, f.effects(end), f.records())
			}
		}
	}
}

func TestRunBatch_R18_ManyStatements(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, distinct := range []bool{false, true} {
		key := strconv.FormatBool(distinct)
		_, err := RunBatch(t.Context(), f.store, request(key), func(_ context.Context, b *Batch) (string, error) {
			for i := range 5_000 {
				if distinct {
					b.MustAffect(1, `insert into effect (intent) values ($1 || '`+strconv.Itoa(i)+`')`, "d")
				} else {
					b.Queue(`insert into effect (intent) values ($1)`, key)
				}
			}
			return "x", nil
		})
		if err != nil {
			t.Errorf("%v: %v", distinct, err)
		}
	}
	f.effectsAre(map[string]int{"false": 5000})
	if !says(t, f.pool, `select count(*) = 5000 from effect where intent like 'd%'`) {
		t.Error("distinct: not all there")
	}
}
