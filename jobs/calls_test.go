package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// handler is a tool that submits jobs in the transaction of its call.
type handler func(ctx context.Context, tx pgx.Tx) (Handle, error)

// answer is what the caller of a tool gets.
type answer struct {
	Handle
	raw      string // byte for byte
	replayed bool
}

// caller makes protected calls on the fixture's database.
type caller struct {
	*fixture
	store *txidem.Store
}

// callKeep is how long the records of calls are kept.
const callKeep = 3 * time.Hour

func callsOn(f *fixture) *caller {
	f.t.Helper()
	store, err := txidem.New(f.pool, &txidem.Config{Policy: &txidem.Policy{Retention: callKeep}})
	if err != nil {
		f.t.Fatal(err)
	}
	return &caller{f, store}
}

const tool = "build_report"

func request(key string) txidem.Request {
	return txidem.Request{Scope: scope, Tool: tool, Key: key}
}

func answerOf(r txidem.Result[Handle], err error) (answer, error) {
	return answer{r.Value, string(r.Raw), r.Replayed}, err
}

func (c *caller) run(ctx context.Context, key string, h handler) (answer, error) {
	return answerOf(txidem.Run(ctx, c.store, request(key), h))
}

func (c *caller) runTx(ctx context.Context, key string, h handler) (a answer, err error) {
	end := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		a, err = c.runInTx(ctx, tx, key, h)
		if isFailure(err) { // which is recorded when the caller commits
			return nil
		}
		return err
	})
	return a, errors.Join(err, end)
}

func (c *caller) runInTx(ctx context.Context, tx pgx.Tx, key string, h handler) (answer, error) {
	return answerOf(txidem.RunTx(ctx, tx, c.store, request(key), h))
}

// leased submits in a transaction of the handler's own.
func (c *caller) leased(ctx context.Context, key string, h handler) (answer, error) {
	return answerOf(txidem.RunLeased(ctx, c.store, request(key), func(ctx context.Context) (a Handle, err error) {
		err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			a, err = h(ctx, tx)
			return err
		})
		return a, err
	}, nil))
}

// mcp makes the call as a client of a server with the tool.
func (c *caller) mcp(ctx context.Context, key string, h handler) (a answer, err error) {
	session, closes, err := c.serve(ctx, h)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, closes()) }()
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Meta: mcp.Meta{mcpidem.MetaKey: key}, Arguments: json.RawMessage("{}")})
	if err != nil {
		return a, err
	}
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return a, err
	}
	if r.IsError {
		return a, fmt.Errorf("the tool says %s", raw)
	}
	a.raw = r.Content[0].(*mcp.TextContent).Text
	a.replayed, _ = r.Meta[mcpidem.MetaReplayed].(bool)
	return a, json.Unmarshal(raw, &a.Handle)
}

func (c *caller) serve(ctx context.Context, h handler) (*mcp.ClientSession, func() error, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "reports", Version: "1"}, nil)
	idem, err := mcpidem.New(server, c.store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope)})
	if err != nil {
		return nil, nil, err
	}
	mcpidem.AddTool(idem, &mcp.Tool{Name: tool}, func(ctx context.Context, tx pgx.Tx, _ struct{}) (Handle, error) { return h(ctx, tx) })
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	if err != nil {
		return nil, nil, err
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		return nil, nil, err
	}
	return session, func() error { return errors.Join(session.Close(), serving.Wait()) }, nil
}

// way makes a call.
type way func(ctx context.Context, key string, h handler) (answer, error)

// atomic are the ways in which a job commits with the record of its call.
func (c *caller) atomic() map[string]way {
	return map[string]way{"Run": c.run, "RunTx": c.runTx, "AddTool": c.mcp}
}

// all are all of them.
func (c *caller) all() map[string]way {
	ways := c.atomic()
	ways["RunLeased"] = c.leased
	return ways
}

// submits is a handler that submits a job.
func submits(c *caller, d *Definition[in, out], args in) handler {
	return func(ctx context.Context, tx pgx.Tx) (Handle, error) { return d.SubmitTx(ctx, tx, c.Runner, args, nil) }
}

func isFailure(err error) bool {
	_, is := failureIn(err)
	return is
}

// rows are how many there are of each.
type rows struct{ calls, held, jobs, bells int }

func (f *fixture) rows() (n rows) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), `select (select count(*) from txonce.call), (select count(*) from txonce.call where expires_at is null),
		(select count(*) from txonce.job), (select count(*) from txonce_river.river_job)`).Scan(&n.calls, &n.held, &n.jobs, &n.bells); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) rowsAre(when string, want rows) {
	f.t.Helper()
	if got := f.rows(); got != want {
		f.t.Errorf("%s: there are %+v, want %+v", when, got, want)
	}
}

// clean removes all calls, jobs and doorbells.
func (f *fixture) clean() {
	f.t.Helper()
	f.exec(`delete from txonce.call`)
	f.exec(`delete from txonce.job`)
	f.exec(`delete from txonce_river.river_job`)
}

func jobID(t *testing.T, h Handle) toolcall.ID {
	t.Helper()
	id, err := toolcall.ParseID(h.JobID)
	if err != nil {
		t.Fatalf("%+v: %v", h, err)
	}
	return id
}

// setupOn is setup on a pool that is changed.
func setupOn(t *testing.T, change func(*pgxpool.Config), cfg *Config, definitions ...Registered) *fixture {
	t.Helper()
	f := &fixture{t: t, pool: dbtest.Pool(t, change)}
	f.exec(`create table effect (label text not null, by text not null default '')`)
	f.Runner = f.another(cfg, definitions...)
	return f
}
