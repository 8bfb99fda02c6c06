// Package randid makes the ids and tokens that are not derived from anything. It may import toolcall and the types of pgx.
package randid

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// V7 makes a UUID of version 7 (RFC 9562), so that rows of one time lie together.
func V7() toolcall.ID {
	var id toolcall.ID
	_, _ = rand.Read(id[:]) // never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Token makes a random token, as a value for Postgres.
func Token() pgtype.UUID {
	token := pgtype.UUID{Valid: true}
	_, _ = rand.Read(token.Bytes[:]) // never fails
	return token
}
