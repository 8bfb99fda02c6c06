package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refused before anything was written. Publishing the same again gives the same error.
var (
	// ErrMessage is returned for a message that could not be delivered or stored. It names the field and says what is allowed.
	ErrMessage = errors.New("outbox: bad message")
	// ErrUnknownDestination is returned when the outbox has no destination of that name.
	ErrUnknownDestination = errors.New("outbox: unknown destination; give it to outbox.New, or correct Message.Destination")
	// ErrSameEffect is returned for a second message of one call with the effect of the first: both would have the same
	// downstream key, and the receiver would take one for a repeat of the other.
	ErrSameEffect = errors.New("outbox: the call has published a message with this effect already; give each its own Message.Effect")
	// ErrNoCall is returned by Publish outside a protected call.
	ErrNoCall = errors.New("outbox: Publish needs the context of a protected call that is running; elsewhere use PublishTx with a transaction")
)

// About one message, for operators.
var (
	// ErrNotFound is returned when there is no message with this id: there never was one, or its retention is over.
	ErrNotFound = errors.New("outbox: no such message")
	// ErrEnded is returned by Cancel when the message has ended.
	ErrEnded = errors.New("outbox: the message has ended and cannot be cancelled; look up its fate")
	// ErrDelivering is returned by Cancel while an attempt is under way. Try again in a moment.
	ErrDelivering = errors.New("outbox: the message is being delivered; try again when the attempt is over")
	// ErrNotDead is returned by Redrive and Skip when the message is not one that failed, is unknown or has expired.
	ErrNotDead = errors.New("outbox: the message has not failed; look up its fate")
)

// About the database.
var (
	// ErrUnavailable is returned when the database could not be asked.
	ErrUnavailable = errors.New("outbox: the database cannot be asked; try again")
	// ErrNotMigrated is returned when a table is missing or has another shape.
	ErrNotMigrated = errors.New("outbox: the schema is not migrated; run migrations.Up first")
	// ErrPermission is returned when the role lacks a privilege.
	ErrPermission = errors.New("outbox: the role lacks a privilege; see the grants in the documentation of package migrations")
)

// explain says what an error of the database means for the caller.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("outbox: gave up: %w", context.Cause(ctx))
	case hasCode(err, "42501"):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case hasCode(err, "42P01", "42703", "3F000"):
		return fmt.Errorf("%w: %w", ErrNotMigrated, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}
