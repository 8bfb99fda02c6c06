package outbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/internal/randid"
)

// claimed is a message that this relay has the lease of.
type claimed struct {
	Delivery
	d          *Destination
	seq        int64
	token      pgtype.UUID
	at         time.Time     // when it was asked for, by this process' clock: the lease is at least as long from then
	overdue    time.Duration // since it was due
	late       bool          // it is not to be sent any more
	unanswered time.Duration // since the first attempt that got no answer; zero for none
}

// look is what one look at a destination asks for and finds.
type look struct {
	*slots
	token        pgtype.UUID
	sent         time.Time
	limit, keyed int // how many to claim, without and with an ordering key
	whole, walk  bool
	found        []*claimed
	plainFound   int
	lastKey      string
	more         bool // there may be more keys
}

// claim looks once at each destination that has a free slot, and begins an attempt of each message that it finds, whatever
// happens at other destinations. The end of ctx does not keep it from knowing what it has claimed.
func (r *relay) claim(ctx context.Context) (sum sight, err error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin/2)
	defer cancel()
	b := &pgx.Batch{}
	var together []*look
	for _, name := range r.names {
		l := r.newLook(r.slots[name])
		switch {
		case l == nil:
		case l.d.Rate > 0:
			if one := r.claimRated(limited, l); one != nil {
				err = explain(limited, one)
				continue
			}
			sum.add(r.beginAll(ctx, l))
		default:
			l.queue(b, r.sql)
			together = append(together, l)
		}
	}
	if len(together) == 0 {
		return sum, err
	}
	if all := r.send(limited, sqlBeginWrite, b); all != nil {
		return sum, explain(limited, all)
	}
	for _, l := range together {
		sum.add(r.beginAll(ctx, l))
	}
	return sum, err
}

// sight is what a look has found.
type sight struct {
	found   int  // messages
	more    bool // there may be more, and slots for them
	walking bool // there are ordering keys that were not visited yet
}

func (s *sight) add(other sight) {
	s.found += other.found
	s.more = s.more || other.more
	s.walking = s.walking || other.walking
}

func (r *relay) beginAll(ctx context.Context, l *look) sight {
	saw := l.conclude() // first: what becomes of an attempt is said when it is over
	for _, m := range l.found {
		r.begin(ctx, l.slots, m)
	}
	return saw
}

// newLook says what to look for, or nil where all slots are taken. Messages with and without ordering keys share the slots: where
// one kind was not seen last time, one slot is for finding out.
func (r *relay) newLook(s *slots) *look {
	free := min(s.left(), mostClaims)
	if free <= 0 {
		return nil
	}
	l := &look{slots: s, token: randid.Token(), sent: time.Now()}
	l.whole, l.walk = !l.sent.Before(s.whole), s.lanes.walks(l.sent)
	l.share(free)
	return l
}

// share divides what may begin between messages without and with ordering keys.
func (l *look) share(free int) {
	switch s := l.slots; {
	case free <= 0:
		l.keyed = 0
	case free == 1:
		l.keyed = 0
		if s.turn = !s.turn; s.turn {
			l.keyed = 1
		}
	case s.keyed == 0:
		l.keyed = 1
	case s.plain == 0:
		l.keyed = free - 1
	default:
		l.keyed = free / 2
	}
	l.limit = max(free, 0) - l.keyed
}

func (l *look) queue(b *pgx.Batch, sql queries) {
	lease := l.d.lease().Seconds()
	if l.limit > 0 {
		b.Queue(sql.claim, l.d.Name, l.token, lease, l.limit, l.back().Seconds()).Query(l.readPlain)
	}
	switch {
	case l.keyed == 0:
	case l.walk:
		b.Queue(sql.claimLanes, l.d.Name, l.token, lease, l.keyed, l.key, mostVisits).Query(l.readLanes)
	default:
		b.Queue(sql.news, l.d.Name, l.lanes.since(), mostNews).Query(l.lanes.readNews)
		if keys, floors := l.lanes.asks(l.sent); keys != nil {
			b.Queue(sql.claimHeads, l.d.Name, l.token, lease, l.keyed, keys, floors).Query(l.readHeads)
		}
	}
}

// back is how far back to look.
func (l *look) back() time.Duration {
	if l.whole {
		return longestOf
	}
	return l.oldest + time.Since(l.looked)
}

func (l *look) readPlain(rows pgx.Rows) error {
	for rows.Next() {
		m := &claimed{d: l.d, token: l.token, at: l.sent}
		if err := m.scan(rows); err != nil {
			return err
		}
		l.found = append(l.found, m)
	}
	l.plainFound = len(l.found)
	return rows.Err()
}

func (l *look) readLanes(rows pgx.Rows) error {
	for rows.Next() {
		m := &claimed{d: l.d, token: l.token, at: l.sent}
		if err := m.scan(rows, &l.lastKey, &l.more); err != nil {
			return err
		}
		if !m.ID.IsZero() {
			l.found = append(l.found, m)
		}
	}
	return rows.Err()
}

// readHeads reads what was claimed of keys that were asked for, and when the others are to be asked for again.
func (l *look) readHeads(rows pgx.Rows) error {
	for rows.Next() {
		m := &claimed{d: l.d, token: l.token, at: l.sent}
		var key string
		var seq int64
		var wait float64
		if err := m.scan(rows, &key, &seq, &wait); err != nil {
			return err
		}
		l.lanes.first(key, seq)
		if m.ID.IsZero() {
			l.lanes.mind(key, min(max(shortest, time.Duration(wait*float64(time.Second))), longestPause))
		} else {
			l.found = append(l.found, m)
		}
	}
	return rows.Err()
}

// scan reads a row of what was claimed, behind the given columns. The row may be one of nulls.
func (m *claimed) scan(rows pgx.Rows, before ...any) error {
	var id, call pgtype.UUID
	var attempts *int
	var seq *int64
	var overdue *float64
	var late *bool
	var unanswered, published *int64
	var text [6]*string
	var headers, hex *string
	to := append(before, &id, &seq, &overdue, &attempts, &late, &unanswered, &text[0], &call, &text[1], &text[2], &text[3], &text[4], &text[5], &headers, &m.Body, &published, &hex)
	if err := rows.Scan(to...); err != nil || !id.Valid {
		return err
	}
	m.overdue = time.Duration(*overdue * float64(time.Second))
	m.seq = *seq
	m.ID, m.Call, m.Destination = id.Bytes, call.Bytes, m.d.Name
	m.Attempt, m.late, m.unanswered, m.PublishedAt = *attempts, *late, time.Duration(*unanswered)*time.Microsecond, timeOf(*published)
	m.Scope, m.Tool, m.Key, m.OrderingKey, m.Address, m.Type = *text[0], *text[1], *text[2], *text[3], *text[4], *text[5]
	if headers != nil {
		return json.Unmarshal([]byte(*headers), &m.Headers)
	}
	return nil
}

// conclude says what was found, and where the next look begins.
func (l *look) conclude() sight {
	s, keyed := l.slots, len(l.found)-l.plainFound
	s.plain, s.keyed = l.plainFound, keyed
	walking := false
	if l.keyed > 0 && l.walk {
		walking = l.turn(keyed)
	}
	for _, m := range l.found[l.plainFound:] {
		s.lanes.first(m.OrderingKey, m.seq)
		s.lanes.mind(m.OrderingKey, m.d.lease()) // until its end is noted
	}
	// Rows that are gone stay in the index while somebody holds an old snapshot, and a look goes through all of them (O10). So a look
	// from the beginning may take a twentieth of the time; those between begin where the last one found something.
	if l.whole && l.limit > 0 {
		s.looked, s.oldest = l.sent, time.Second
		for _, m := range l.found[:l.plainFound] {
			s.oldest = max(s.oldest, m.overdue)
		}
		s.whole = time.Now().Add(min(20*time.Since(l.sent), 5*time.Second))
	}
	return sight{
		found: len(l.found), walking: walking,
		more: l.limit > 0 && l.plainFound == l.limit || l.keyed > 0 && keyed == l.keyed,
	}
}

// turn says where the next walk begins, and whether the one that this one was a part of goes on.
func (l *look) turn(keyed int) (walking bool) {
	s, from := l.slots, l.key
	s.lanes.walked(time.Since(l.sent), s.pace)
	switch s.key = ""; {
	case keyed == l.keyed: // those behind come first next time, whatever comes in for these (O02)
		for _, m := range l.found[l.plainFound:] {
			s.key = max(s.key, m.OrderingKey)
		}
	case l.more:
		s.key = l.lastKey
	default:
		return from != "" && !s.lanes.slow() // it began in the middle
	}
	return !s.lanes.slow()
}

// claimRated claims from a destination with a rate, which all relays have together: its row is kept until the claims are paid for.
func (r *relay) claimRated(ctx context.Context, l *look) error {
	return pgx.BeginTxFunc(ctx, r.pool, readCommitted, func(tx pgx.Tx) error {
		var allowed int
		if err := tx.QueryRow(ctx, r.sql.allow, l.d.Name, l.d.Rate, max(1, l.d.Rate)).Scan(&allowed); err != nil {
			return err
		}
		if allowed < l.limit+l.keyed {
			l.share(allowed)
		}
		if l.limit+l.keyed == 0 {
			return nil
		}
		b := &pgx.Batch{}
		b.Queue(sqlByIndex)
		l.queue(b, r.sql)
		if err := tx.SendBatch(ctx, b).Close(); err != nil || len(l.found) == 0 {
			return err
		}
		_, err := tx.Exec(ctx, r.sql.charge, l.d.Name, len(l.found))
		return err
	})
}
