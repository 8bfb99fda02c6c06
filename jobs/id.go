package jobs

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// newID makes the id of a job: a UUID of version 7 (RFC 9562), so that rows of one time lie together. It is not derived from
// the call: the same call, made again after its record has expired, gets another job.
func newID() toolcall.ID {
	var id toolcall.ID
	_, _ = rand.Read(id[:]) // never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// isJob reports whether the id may be a job's at all. Those of calls are of version 8.
func isJob(id toolcall.ID) bool { return id[6]>>4 == 7 }

func newToken() pgtype.UUID {
	token := pgtype.UUID{Valid: true}
	_, _ = rand.Read(token.Bytes[:]) // never fails
	return token
}

func uuidOf(id toolcall.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
