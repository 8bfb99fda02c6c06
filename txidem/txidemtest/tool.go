package txidemtest

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// None as Tool.Want says that a call has no effect: it is one that the tool refuses.
const None = -1

// Tool is what is proved: a call of the user's, and how to count what it did.
type Tool struct {
	// Name tells the tools of one test apart. Defaults to none, which is enough for one.
	Name string

	// Call makes the call once, the way the user's server does: through txidem, with this pool for everything. The intent is a
	// positive number below 2^31 that stands for what the caller wants; key and arguments must be derived from it and from
	// nothing else, so that each repetition is the same call. It returns the answer as the caller gets it, without what marks a
	// replay, and the error of txidem, wrapped or not, where there is one. An error means that there is no answer yet, unless
	// it is a recorded failure (*toolcall.Failure). Call must end when ctx does.
	Call func(ctx context.Context, pool *pgxpool.Pool, intent int) (answer []byte, err error)

	// Effects is a query for the number of committed effects of the intent $1, such as
	// `select count(*) from refunds where order_id = 'order-' || $1`. The parameter has the type that the query makes it.
	Effects string

	// Want is how many effects an intent has. Defaults to 1; None for a call that is refused.
	Want int

	// Elsewhere says that the effects lie outside the transaction of the call, as those of txidem.RunLeased: then a call that
	// failed and a process that died may have had them, and what is demanded is that the repeated call has the wanted number of
	// them and one answer. Use a short Policy.Lease, such as a second: after a kill, the repeated call waits for it to run out. Give
	// the call an ask or RerunLost: one that blocks has no answer when it is repeated, which counts as a finding.
	// Defaults to false.
	Elsewhere bool

	// Pool, if not nil, adjusts the configuration of the pool that Call gets, as the user's server does. The pool has at least
	// four connections all the same. Defaults to the database's URL as it is.
	Pool func(*pgxpool.Config)

	// Timeout is the longest that one call may take, also a repeated one that waits for another. Defaults to 30 seconds.
	Timeout time.Duration
}

// errTool is returned for a Tool that lacks something.
var errTool = errors.New("txidemtest: a Tool needs Call and Effects")

// withDefaults returns the tool with its defaults filled in.
func (t Tool) withDefaults() (Tool, error) {
	if t.Call == nil || t.Effects == "" {
		return t, errTool
	}
	switch t.Want {
	case 0:
		t.Want = 1
	case None:
		t.Want = 0
	}
	if t.Timeout <= 0 {
		t.Timeout = 30 * time.Second
	}
	return t, nil
}
