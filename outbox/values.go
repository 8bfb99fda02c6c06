package outbox

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

func uuidOf(id toolcall.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func secondsOrNull(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	secs := d.Seconds()
	return &secs
}

// timeOf makes a time of microseconds since 1970; zero stands for none.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
