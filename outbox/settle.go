package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// result is an attempt and what became of it.
type result struct {
	*claimed
	verdict
}

// mostResults bounds how many results one round trip notes.
const mostResults = 500

// settleAlways notes results, those together that came while the ones before them were being noted, until the channel is closed.
func (r *relay) settleAlways(ctx context.Context) {
	for first := range r.results {
		some := []result{first}
	more:
		for len(some) < mostResults {
			select {
			case next, ok := <-r.results:
				if !ok {
					break more
				}
				some = append(some, next)
			default:
				break more
			}
		}
		for i := range some {
			some[i].clean()
		}
		r.settle(ctx, some, false)
	}
	r.alone.Wait()
}

// divide finds the results that cannot be noted, and has no other wait for them.
func (r *relay) divide(ctx context.Context, some []result, repeated bool) {
	for _, one := range some {
		if len(some) == 1 || r.note(ctx, []result{one}, repeated) != nil {
			r.alone.Go(func() { r.settle(ctx, []result{one}, true) })
		}
	}
}

// settle notes results. Where the database is away it tries again for as long as one of them has its lease: what is not noted is
// delivered again. alone: it is one that could not be noted together with others.
func (r *relay) settle(ctx context.Context, some []result, alone bool) {
	var until time.Time
	for _, one := range some {
		if ends := one.at.Add(one.d.lease()); ends.After(until) {
			until = ends
		}
	}
	repeated := false // what the first try was to note may have been noted
	for pause := shortest; ; pause = min(2*pause, time.Second) {
		err := r.note(ctx, some, repeated)
		switch {
		case err == nil:
			return
		case errors.As(err, new(*pgconn.PgError)) && !alone:
			r.divide(ctx, some, repeated)
			return
		case time.Now().After(until):
			r.log.ErrorContext(ctx, "outbox: the results of attempts could not be noted; the messages are delivered again", "results", len(some), "error", err)
			return
		}
		r.log.WarnContext(ctx, "outbox: the results of attempts could not be noted; trying again", "results", len(some), "error", err)
		repeated = repeated || !errors.As(err, new(*pgconn.PgError))
		sleep(ctx, pause)
	}
}

// note writes results in one round trip and one transaction. A result whose attempt has lost its lease to another one changes nothing.
func (r *relay) note(ctx context.Context, some []result, repeated bool) error {
	ctx, cancel := context.WithTimeout(ctx, margin/2)
	defer cancel()
	noted := make(map[toolcall.ID]bool, len(some))
	b := &pgx.Batch{}
	queue := func(sql string, args []any) {
		if args != nil {
			b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var id pgtype.UUID
					if err := rows.Scan(&id); err != nil {
						return err
					}
					noted[id.Bytes] = true
				}
				return rows.Err()
			})
		}
	}
	b.Queue(sqlPatience)
	for _, one := range some {
		r.queueClosing(b, one)
	}
	queue(r.sql.end, ends(some, false))
	queue(r.sql.block, ends(some, true))
	queue(r.sql.again, agains(some))
	queue(r.sql.letBe, letBes(some))
	if err := r.send(ctx, sqlBeginWrite, b); err != nil {
		return err
	}
	r.tell(ctx, some, noted, repeated)
	return nil
}

// queueClosing keeps all relays from a destination that said so, to an attempt that still has its message.
func (r *relay) queueClosing(b *pgx.Batch, one result) {
	switch {
	case one.Address != "" || one.letBe: // others at this destination have nothing to do with it
	case one.Class == Gone:
		b.Queue(r.sql.pauseGone, one.d.Name, cut("the receiver wants no more messages: "+one.Reason, mostReason), uuidOf(one.ID), one.token)
	case (one.Class == Retry || one.Class == Unanswered) && one.Throttled && one.RetryAfter > 0:
		b.Queue(r.sql.closeFor, one.d.Name, min(one.RetryAfter, longestAfter).Seconds(), uuidOf(one.ID), one.token)
	}
}

// tell logs what became of the attempts, and wakes who tells the application.
func (r *relay) tell(ctx context.Context, some []result, noted map[toolcall.ID]bool, repeated bool) {
	wake := repeated
	for _, one := range some {
		if one.OrderingKey != "" && !one.blocks() {
			r.slots[one.d.Name].lanes.mind(one.OrderingKey, one.wait)
		}
		log := r.log.With("destination", one.d.Name, "message", one.ID, "attempt", one.Attempt, "status", one.Status, "reason", one.Reason)
		switch {
		case !noted[one.ID] && repeated:
			log.DebugContext(ctx, "outbox: the result of an attempt was noted by a try whose answer was lost, or it came too late")
			continue
		case !noted[one.ID]:
			log.WarnContext(ctx, "outbox: the result of an attempt came too late and was not taken; another attempt has the message")
			continue
		case one.Class == Gone && one.Address == "":
			log.ErrorContext(ctx, "outbox: a message failed, and its destination is paused, for the receiver wants no more; see Resume")
		case one.state == toolcall.MessageDelivered, one.letBe:
			log.DebugContext(ctx, "outbox: an attempt is over", "state", one.state)
		case one.state != "":
			log.ErrorContext(ctx, "outbox: a message was not delivered; see Redrive", "state", one.state)
		default:
			log.WarnContext(ctx, "outbox: an attempt was not taken; another one follows", "wait", one.wait)
		}
		wake = wake || one.state != "" && one.d.OnOutcome != nil
	}
	if wake {
		notify(r.told)
	}
}

// blocks reports whether the message keeps those behind it waiting.
func (one *result) blocks() bool {
	return one.OrderingKey != "" && one.d.OnDead == BlockKey && (one.state == toolcall.MessageFailed || one.state == toolcall.MessageUnknown)
}

// ends are the arguments of sqlEnd and sqlBlock, or nil where there are none.
func ends(some []result, blocking bool) []any {
	var ids, tokens, states, providers, reasons []string
	var statuses, uncounted []int32
	var responses [][]byte
	var keeps []float64
	var tells []bool
	for _, one := range some {
		if one.state == "" || one.letBe || one.blocks() != blocking {
			continue
		}
		ids, tokens, states = append(ids, one.ID.String()), append(tokens, one.token.String()), append(states, string(one.state))
		providers, reasons, responses = append(providers, one.ProviderID), append(reasons, one.Reason), append(responses, one.Response)
		statuses, tells = append(statuses, int32(one.Status)), append(tells, one.d.OnOutcome != nil)
		keeps, uncounted = append(keeps, one.d.keep(one.state).Seconds()), append(uncounted, oneIf(one.uncounted))
	}
	if ids == nil {
		return nil
	}
	return []any{ids, tokens, states, statuses, providers, reasons, responses, keeps, tells, uncounted}
}

// agains are the arguments of sqlAgain, or nil where there are none.
func agains(some []result) []any {
	var ids, tokens, providers, reasons []string
	var waits []float64
	var unanswered, undone, stop []bool
	var statuses []int32
	var responses [][]byte
	for _, one := range some {
		if one.state != "" || one.letBe {
			continue
		}
		ids, tokens, waits = append(ids, one.ID.String()), append(tokens, one.token.String()), append(waits, one.wait.Seconds())
		unanswered, undone, stop = append(unanswered, one.verdict.unanswered), append(undone, one.undone), append(stop, one.stop)
		statuses, providers = append(statuses, int32(one.Status)), append(providers, one.ProviderID)
		reasons, responses = append(reasons, one.Reason), append(responses, one.Response)
	}
	if ids == nil {
		return nil
	}
	return []any{ids, tokens, waits, unanswered, undone, stop, statuses, providers, reasons, responses}
}

// letBes are the arguments of sqlLetBe, or nil where there are none.
func letBes(some []result) []any {
	var ids, tokens []string
	for _, one := range some {
		if one.letBe {
			ids, tokens = append(ids, one.ID.String()), append(tokens, one.token.String())
		}
	}
	if ids == nil {
		return nil
	}
	return []any{ids, tokens}
}

func oneIf(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// keep is how long a message is kept that ended in the state.
func (d *Destination) keep(state toolcall.MessageState) time.Duration {
	if state == toolcall.MessageFailed || state == toolcall.MessageUnknown {
		return d.KeepDead
	}
	return d.Keep
}
