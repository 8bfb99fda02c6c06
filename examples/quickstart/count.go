package main

import (
	"cmp"
	"context"
	"fmt"
)

// rowsOf counts the effects of one intent.
func (db *database) rowsOf(ctx context.Context, in *intent) (int, error) {
	where := effectsOf(cmp.Or(in.about, in.tool))
	var n int
	err := db.QueryRow(ctx, fmt.Sprintf("select count(*) from %s where %s = $1", where.table, where.column), in.subject).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the effects of %s: %w", in.subject, err)
	}
	return n, nil
}

// effects counts the rows of each order, customer and account.
func (db *database) effects(ctx context.Context) (map[string]int, error) {
	rows, err := db.Query(ctx, `
select order_id, count(*) from refunds group by 1 union all
select customer, count(*) from tickets group by 1 union all
select account,  count(*) from ledger  group by 1 union all
select account,  count(*) from statements group by 1`)
	if err != nil {
		return nil, fmt.Errorf("count the effects: %w", err)
	}
	defer rows.Close()
	counted := make(map[string]int)
	for rows.Next() {
		var subject string
		var n int
		if err := rows.Scan(&subject, &n); err != nil {
			return nil, fmt.Errorf("count the effects: %w", err)
		}
		counted[subject] = n
	}
	return counted, rows.Err()
}

// jobs counts the jobs that were submitted, and those of them that have not ended.
func (db *database) jobs(ctx context.Context, where place) (all, open int, err error) {
	sql := fmt.Sprintf("select count(*), count(*) filter (where %s is null) from %s", where.column, where.table)
	if err := db.QueryRow(ctx, sql).Scan(&all, &open); err != nil {
		return 0, 0, fmt.Errorf("count the jobs: %w", err)
	}
	return all, open, nil
}

// unsent counts the messages that are still to be delivered.
func (db *database) unsent(ctx context.Context, table string) (n int, err error) {
	if table == "" {
		return 0, nil
	}
	if err := db.QueryRow(ctx, "select count(*) from "+table+" where not dead").Scan(&n); err != nil {
		return 0, fmt.Errorf("count the messages: %w", err)
	}
	return n, nil
}

// refundsOf takes the refunds out of the rows, by order.
func refundsOf(errands []*errand, rows map[string]int) map[string]int {
	refunds := make(map[string]int)
	for _, e := range errands {
		if e.intent.tool == toolRefund {
			refunds[e.intent.subject] = rows[e.intent.subject]
		}
	}
	return refunds
}

// figures is what came of a tool, or of all.
type figures struct {
	intents    int
	calls      int // tools/call requests that arrived at the server's door
	unheard    int // of their answers, those that did not reach the agent
	replays    int // answers that the server gave again, whether or not they arrived
	inProgress int // answers "in progress" of the server, likewise
	learned    int // answers of calls that the agent got by asking
	effects    int // rows in the database
	duplicates int // rows beyond the first of an intent

	lost      int // intents told done without an effect, or told failed with one
	differing int // answers that contradicted an earlier one for the same intent
	done      int // intents told done
	failed    int // intents told failed
	unknown   int // intents whose outcome the agent does not know
}

func (f *figures) add(g figures) {
	f.intents += g.intents
	f.calls += g.calls
	f.unheard += g.unheard
	f.replays += g.replays
	f.inProgress += g.inProgress
	f.learned += g.learned
	f.effects += g.effects
	f.duplicates += g.duplicates
	f.lost += g.lost
	f.differing += g.differing
	f.done += g.done
	f.failed += g.failed
	f.unknown += g.unknown
}

// tally counts per tool, from the journal, from what the agent was told, and from the rows in the database.
func tally(entries []*entry, errands []*errand, rows map[string]int) map[string]*figures {
	of := make(map[string]*figures)
	for _, tool := range append(tools(), toolStatus) {
		of[tool] = &figures{}
	}
	for _, e := range errands {
		of[e.intent.tool].add(e.figures(rows[e.intent.subject]))
	}
	for _, e := range entries {
		of[e.tool].add(e.figures())
	}
	return of
}

func (e *errand) figures(rows int) figures {
	f := figures{intents: 1, effects: rows, duplicates: max(0, rows-1), differing: e.differing}
	switch e.outcome() {
	case done:
		f.done = 1
		if rows == 0 {
			f.lost = 1
		}
	case failed:
		f.failed = 1
		if rows > 0 {
			f.lost = 1
		}
	default:
		f.unknown = 1
	}
	return f
}

func (e *entry) figures() figures {
	f := figures{calls: len(e.arrivals), unheard: len(e.arrivals)}
	if e.got.kind != nothing {
		f.unheard--
	}
	if e.learns() {
		f.learned++
	}
	for _, a := range e.arrivals {
		if a.answer.replayed {
			f.replays++
		}
		if a.answer.kind == running {
			f.inProgress++
		}
	}
	return f
}

// learns reports whether the agent heard the answer of its call by asking for it.
func (e *entry) learns() bool {
	return e.tool == toolStatus && e.got.definite() && (e.got.job == "" || e.got.kind == accepted)
}
