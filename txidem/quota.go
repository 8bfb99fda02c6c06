package txidem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// quotas remembers how many live records scopes have, so that few calls have to count them.
type quotas struct {
	mu sync.Mutex
	of map[string]usage
}

type usage struct {
	live  int64 // counted in the table, up to the limit
	limit int
	added int64     // by this process since
	at    time.Time // when it was counted
}

const (
	quotaFresh = time.Second
	quotaMost  = 10_000 // scopes
)

// withinQuota refuses a call that would make one more record than its scope may have. Calls that have a record go on.
func (s *Store) withinQuota(ctx context.Context, id *identity, from querier) error {
	if id.policy.Quota == 0 {
		return nil
	}
	u, fresh := s.quotas.get(id.scope, id.policy.Quota)
	if !fresh {
		if err := from.QueryRow(ctx, s.sql.live, id.scope, id.policy.Quota).Scan(&u.live); err != nil {
			return err
		}
		if u.live < 0 {
			return fmt.Errorf("%w: Policy.Quota needs an index: create index concurrently call_scope_idx on %s.call (scope, expires_at)", ErrPolicy, s.sql.schema)
		}
		u = s.quotas.set(id.scope, u.live, id.policy.Quota)
	}
	if u.live+u.added < int64(id.policy.Quota) {
		return nil
	}
	err := from.QueryRow(ctx, s.sql.exists, uuidOf(id), id.policy.OnExpired == Refuse).Scan(nil)
	if errors.Is(err, pgx.ErrNoRows) {
		return overQuota(id)
	}
	return err
}

func overQuota(id *identity) error {
	return fmt.Errorf("%w: %d are allowed", ErrQuota, id.policy.Quota)
}

// get returns what is known of the scope. It is not fresh for a larger limit than the one up to which it was counted.
func (q *quotas) get(scope string, limit int) (u usage, fresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, ok := q.of[scope]
	return u, ok && time.Since(u.at) < quotaFresh && (u.live < int64(u.limit) || limit <= u.limit)
}

func (q *quotas) set(scope string, live int64, limit int) usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil || len(q.of) >= quotaMost {
		q.of = make(map[string]usage)
	}
	u := usage{live: live, limit: limit, at: time.Now()}
	q.of[scope] = u
	return u
}

// add counts a record that this process has just made.
func (q *quotas) add(id *identity) {
	if id.policy.Quota == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if u, ok := q.of[id.scope]; ok {
		u.added++
		q.of[id.scope] = u
	}
}
