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
	live  int64     // counted in the table
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
	u, fresh := s.quotas.get(id.scope)
	if !fresh {
		if err := from.QueryRow(ctx, s.sql.live, id.scope, id.policy.Quota).Scan(&u.live); err != nil {
			return s.explain(ctx, err)
		}
		if u.live < 0 {
			return fmt.Errorf("%w: Policy.Quota needs an index: create index concurrently call_scope_idx on %s.call (scope, expires_at)", ErrPolicy, s.sql.schema)
		}
		u = s.quotas.set(id.scope, u.live)
	}
	if u.live+u.added < int64(id.policy.Quota) {
		return nil
	}
	switch err := from.QueryRow(ctx, s.sql.exists, uuidOf(id)).Scan(nil); {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: %d are allowed", ErrQuota, id.policy.Quota)
	case err != nil:
		return s.explain(ctx, err)
	}
	return nil
}

func (q *quotas) get(scope string) (u usage, fresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, ok := q.of[scope]
	return u, ok && time.Since(u.at) < quotaFresh
}

func (q *quotas) set(scope string, live int64) usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil || len(q.of) >= quotaMost {
		q.of = make(map[string]usage)
	}
	u := usage{live: live, at: time.Now()}
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
