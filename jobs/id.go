package jobs

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/internal/randid"
	"github.com/txonce/txonce/toolcall"
)

// newID makes the id of a job. It is not derived from the call: the same call, made again after its record has expired, gets
// another job.
func newID() toolcall.ID { return randid.V7() }

// isJob reports whether the id may be a job's at all. Those of calls are of version 8.
func isJob(id toolcall.ID) bool { return id[6]>>4 == 7 }

func newToken() pgtype.UUID { return randid.Token() }

func uuidOf(id toolcall.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
