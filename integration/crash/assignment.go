package main

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
)

// workerEnv makes the program a worker.
const workerEnv = "TXONCE_CRASH_WORKER"

// assignment is the life of a worker. It reads it from its standard input.
type assignment struct {
	Life  int
	Place lives.Place
	Exec  bool // without prepared statements: each turn is one write from the beginning
	Plant plant
	Death *death // nil to live
	Calls []call
}

// call is one call that a worker makes.
type call struct {
	Mode      mode
	Intent    int
	Bucket    int
	Refuse    bool // the handler returns txidem.Fail
	Break     bool // the handler returns a plain error
	Open      bool // it does so after its effect outside the transaction
	Lost      lost // of leased calls
	Resolve   bool // before RunTx, it is found out how the call ended
	Insist    bool // the call is repeated until it is decided, for the time of Wait
	Slow      bool // the handler takes its time
	Tool      string
	Key       string
	Args      json.RawMessage
	Isolation pgx.TxIsoLevel
	Wait      time.Duration
}

// answer is what a worker tells of a call, as a line of JSON, once the call has returned.
type answer struct {
	Mode     mode
	Intent   int
	Call     int // its number in this life
	Class    class
	Raw      []byte // of a result or a recorded failure: byte for byte
	Replayed bool
	ID       string
	Error    string
	Runs     int // of the handler
	Claims   int // how often turn 1 was written: more than once where the call waited or was repeated
}

// class is what an answer says.
type class string

const (
	done       class = "done"        // final
	failed     class = "failed"      // final: recorded by txidem.Fail
	inProgress class = "in_progress" // ask again
	released   class = "released"    // the handler's plain error: ask again
	blocked    class = "blocked"     // a leased call was cut off: somebody must find out
	conflict   class = "conflict"    // Postgres asked for too many new transactions: ask again
	unknown    class = "unknown"     // the outcome is not known: ask again
	reused     class = "reused"      // the key is said to belong to other arguments, which is never true here
	other      class = "other"
)

// decided reports whether there is nothing to wait for.
func (c class) decided() bool { return c.final() || c == blocked || c == reused || c == other }

// final reports whether the answer must never change.
func (c class) final() bool { return c == done || c == failed }
