package txidem

import (
	"context"
	"fmt"

	"github.com/txonce/txonce/toolcall"
)

// Forget removes the record of the call, if it has the scope, and reports whether there was one. The next call of the
// identity runs: also that of a leased call whose last attempt may have had its effect, which gets another downstream key then.
// Forget it only when the other system is known not to have it. The id is in the call's result, also with
// an error, and in Store.Status.
func (s *Store) Forget(ctx context.Context, scope string, id toolcall.ID) (bool, error) {
	if s.memory != nil {
		return s.memory.forget(scope, id), nil
	}
	tag, err := s.pool.Exec(ctx, s.sql.forgetScoped, uuidOf(&identity{ID: id}), scope)
	if err != nil {
		return false, s.explain(ctx, err)
	}
	return tag.RowsAffected() > 0, nil
}

// forgetBlocks is how many blocks of the table one statement of ForgetScope reads: 8 MiB, some milliseconds of work.
const forgetBlocks = 1024

// ForgetScope removes all records of a scope, also those of calls that must not run twice, and returns how many, also with
// an error. It reads the whole table once, in short transactions that nobody waits for; records that are written meanwhile
// may stay. A leased call that runs loses its claim: it ends without a record.
func (s *Store) ForgetScope(ctx context.Context, scope string) (removed int64, err error) {
	if err := checkName(scope); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrScope, err)
	}
	if s.memory != nil {
		return s.memory.forgetScope(scope), nil
	}
	var blocks int64
	if err := s.pool.QueryRow(ctx, s.sql.blocks).Scan(&blocks); err != nil {
		return 0, s.explain(ctx, err)
	}
	for from := int64(0); from < blocks; from += forgetBlocks {
		tag, err := s.pool.Exec(ctx, s.sql.forgetScope, scope, from, from+forgetBlocks)
		if err != nil {
			return removed, s.explain(ctx, err)
		}
		removed += tag.RowsAffected()
	}
	return removed, nil
}
