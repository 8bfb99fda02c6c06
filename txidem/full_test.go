package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A server that has no room for the record of a call says so of a statement that is ours, not the handler's.
func TestRun_R15_NoRoomForTheRecord(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`create function full_disk() returns trigger language plpgsql as $$ begin raise sqlstate '53100' using message = 'no room'; end $$`)
	f.exec(`create trigger full_disk before insert on txonce.call execute function full_disk()`)
	ways := map[string]func(Request) (Result[string], error){
		"run": func(req Request) (Result[string], error) { return Run(t.Context(), f.store, req, writes(req.Key)) },
		"batch": func(req Request) (Result[string], error) {
			return RunBatch(t.Context(), f.store, req, func(_ context.Context, b *Batch) (string, error) {
				b.MustAffect(1, `insert into effect (intent) values ($1)`, req.Key)
				return "done", nil
			})
		},
		"tx": func(req Request) (got Result[string], err error) {
			err = pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) (err error) {
				got, err = RunTx(t.Context(), tx, f.store, req, writes(req.Key))
				return err
			})
			return got, err
		},
	}
	for label, call := range ways {
		if got, err := call(request(label)); !errors.Is(err, ErrUnavailable) || !hasCode(err, "53100") || !Retryable(err) || got.Raw != nil {
			t.Errorf("%s: got %+v, %v; want ErrUnavailable with the server's reason", label, got, err)
		}
		if n := f.effects(label); n != 0 {
			t.Errorf("%s: %d effects", label, n)
		}
	}
	f.exec(`drop trigger full_disk on txonce.call`)
	for label, call := range ways {
		if got, err := call(request(label)); err != nil || got.Replayed || f.effects(label) != 1 {
			t.Errorf("%s: when there was room it got %+v, %v, with %d effects", label, got, err, f.effects(label))
		}
	}
	f.idle()
}
