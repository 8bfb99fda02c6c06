package outbox

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/randid"
)

// TestClaim_O10_ReadsTheBacklogByItsIndexes: also where the statistics are from a moment in which it was as good as empty.
func TestClaim_O10_ReadsTheBacklogByItsIndexes(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	for _, sql := range []string{
		`insert into txonce.message_pending (id, seq, destination, ordering_key, due_at)
		 select gen_random_uuid(), n, 'd', case when n % 2 = 0 then (n % 100)::text end, now() from generate_series(1, 5000) n`,
		`delete from txonce.message_pending where seq < 4990`,
		`vacuum analyze txonce.message_pending`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	q := queriesFor("txonce")
	token := randid.Token()
	for label, c := range map[string]struct {
		sql  string
		args []any
	}{
		"claim":      {q.claim, []any{"d", token, 1.0, 10, 60.0}},
		"claimLanes": {q.claimLanes, []any{"d", token, 1.0, 10, "", mostVisits}},
		"claimHeads": {q.claimHeads, []any{"d", token, 1.0, 10, []string{"2"}, []int64{0}}},
		"news":       {q.news, []any{"d", int64(0), mostNews}},
	} {
		var plan []string
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), sqlByIndex); err != nil {
				return err
			}
			rows, _ := tx.Query(t.Context(), "explain (costs off) "+c.sql, c.args...)
			var err error
			plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if text := strings.Join(plan, "\n"); err != nil || strings.Contains(text, "Seq Scan on message_pending") || strings.Contains(text, "Sort") {
			t.Errorf("%s: %v\n%s", label, err, text)
		}
	}
}
