package txidem

import (
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/internal/canonjson"
	"github.com/txonce/txonce/toolcall"
)

// record is the row of a call: one that has ended, or a leased one that runs.
type record struct {
	scope, tool, key string
	fingerprint      []byte
	canon            int    // the canonicaliser's version that made the fingerprint
	fields           []byte // hashes by which a mismatch names its paths
	state            string
	attempt          pgtype.UUID // token of the attempt that wrote it
	answer           []byte      // nil if it is larger than Policy.InlineAnswer and has not been read
	finishedAt       time.Time
	expired          bool   // by the database's clock
	leased           bool   // the claim was committed before the effect, which lies outside the database
	live             bool   // its lease has not run out, by the database's clock
	epoch            string // tells this intent from earlier and later ones of the identity
}

const (
	stateRunning   = "running"
	stateSucceeded = "succeeded"
	stateFailed    = "failed"
)

// readRecord reads the one row of sqlRead, or returns nil.
func readRecord(rows pgx.Rows) (*record, error) {
	if !rows.Next() {
		return nil, rows.Err()
	}
	r := &record{}
	return r, r.scan(rows)
}

// scan reads a row of sqlRead.
func (r *record) scan(rows pgx.Rows) error {
	var finished, started int64
	err := rows.Scan(&r.scope, &r.tool, &r.key, &r.fingerprint, &r.canon, &r.fields, &r.state, &r.attempt,
		&r.answer, &finished, &r.expired, &r.leased, &r.live, &started, nil)
	if err != nil {
		return err
	}
	r.epoch = strconv.FormatInt(started, 10)
	if finished != 0 { // else it has not ended
		r.finishedAt = time.UnixMicro(finished)
	}
	return nil
}

// scanStatus reads a row of sqlReadOne or sqlReadMany, which has what may be told of a call and no more.
func (r *record) scanStatus(rows pgx.Rows, id *pgtype.UUID, synchronous *bool) error {
	var finished int64
	err := rows.Scan(id, synchronous, &r.scope, &r.tool, &r.key, &r.state, &r.answer, &finished, &r.expired, &r.live, nil)
	if finished != 0 { // else it has not ended
		r.finishedAt = time.UnixMicro(finished)
	}
	return err
}

// readStored reads when a failure was stored, if it was.
func (r *record) readStored(rows pgx.Rows) (stored bool, err error) {
	if !rows.Next() {
		return false, rows.Err()
	}
	var finished int64
	err = rows.Scan(&finished)
	r.finishedAt = time.UnixMicro(finished)
	return true, err
}

// newRecord is the record that this call is about to write. A derived key comes with its arguments, so only an explicit
// one can meet others and needs the hashes of the fields.
func newRecord(id *identity, attempt pgtype.UUID, state string, answer []byte) *record {
	r := &record{
		scope: id.scope, tool: id.tool, key: id.key,
		fingerprint: id.fingerprint[:], canon: canonjson.Version,
		state: state, attempt: attempt, answer: answer, leased: id.leased,
	}
	if id.explicit {
		r.fields = canonjson.FieldsOf(id.canon, r.attempt.Bytes[:])
	}
	return r
}

// differing names the arguments that differ from those of the record, where its field hashes tell.
func (r *record) differing(id *identity) []string {
	if len(r.fields) == 0 {
		return nil
	}
	paths, _ := canonjson.Diff(r.fields, id.args, id.rules, r.attempt.Bytes[:])
	return paths
}

// recorded is what the user's own code is told of the record.
func (r *record) recorded(id toolcall.ID) Recorded {
	return Recorded{ID: id, Scope: r.scope, Tool: r.tool, Failed: r.state == stateFailed, FinishedAt: r.finishedAt}
}

// isOf checks that the record is the call's at all: it fails closed where the ids collide.
func (r *record) isOf(id *identity) error {
	if r.scope != id.scope || r.tool != id.tool || r.key != id.key {
		return errForeign(id.ID)
	}
	if r.state != stateSucceeded && r.state != stateFailed && !(r.leased && r.state == stateRunning) {
		return fmt.Errorf("%w: it is %q; upgrade this process to the release that wrote it", ErrRecord, r.state)
	}
	return nil
}

func errForeign(id toolcall.ID) error {
	return fmt.Errorf("%w: %s belongs to another scope, tool or key", ErrRecord, id)
}

// fits checks that the arguments are the same. Only then does anyone look at the record's state (K07).
func (r *record) fits(id *identity) error {
	fingerprint := id.fingerprint
	if r.canon != canonjson.Version { // an older record is judged by its own version (K09)
		var err error
		if fingerprint, err = canonjson.Sum(r.canon, id.args, id.rules); err != nil {
			return fmt.Errorf("%w: its arguments were hashed by a version this library does not know: %w", ErrRecord, err)
		}
	}
	if string(r.fingerprint) != string(fingerprint[:]) {
		return &KeyReusedError{ID: id.ID, Tool: id.tool, Paths: r.differing(id)}
	}
	return nil
}

// ranAlike checks that the record was made in the way in which the call is to run: a claim that stands for an effect
// elsewhere and one that is part of the effect's transaction mean different things.
func (r *record) ranAlike(id *identity) error {
	if r.leased == id.leased {
		return nil
	}
	if r.leased {
		return fmt.Errorf("%w: %s %s has a lease; call it by RunLeased", ErrOtherWay, id.tool, id.ID)
	}
	return fmt.Errorf("%w: %s %s has none; call it by Run, RunTx or RunBatch", ErrOtherWay, id.tool, id.ID)
}
