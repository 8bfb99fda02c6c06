package main

import (
	"fmt"
	"math/rand/v2"
)

// Figures of the traffic.
const (
	intentCount  = 80
	failingCount = 6  // asked for something that cannot be done
	moodyCount   = 5  // the first run of the handler fails
	slowCount    = 8  // the insert takes longer than the agent waits
	doubledCount = 16 // two or three copies at the same moment
)

// intent is one thing that somebody wants done once. Everything about it follows from the seed.
type intent struct {
	number  int
	tool    string
	about   string // of a question: the tool that it asks about
	subject string // the order, customer or account: no two intents share one, so rows are counted by it
	fields  []field
	way     way
	rounds  int // how often the agent comes to the same step: again after a crash, or when the answer is forgotten
	copies  int // how many of them are sent at the same moment
	failing bool
	mishap  mishap
}

// way is how the agent makes the server recognise a repetition.
type way int

const (
	sameKey     way = iota // the harness sends the same key in _meta, under a new request id
	newSession             // the same, each time on a session of its own
	noKey                  // the model calls again, spelled otherwise and without any key
	keyArgument            // the model repeats the argument idempotency_key
	asking                 // the model gives the argument, and asks what became of a call whose answer was lost
	wayCount
)

func (w way) String() string {
	switch w {
	case sameKey:
		return "the harness repeats with the same key"
	case newSession:
		return "the harness repeats with the same key on a new session"
	case noKey:
		return "the model repeats without a key, spelled otherwise"
	case keyArgument:
		return "the model repeats with the same idempotency_key argument, where the tool takes one"
	default:
		return "the model does not repeat a call whose answer was lost: it asks what became of it, where there is a tool for that"
	}
}

// tools are those that intents are about.
func tools() []string { return []string{toolRefund, toolTicket, toolLedger, toolStatement} }

// key is chosen once per intent, by the harness or by the model. It names the run, so that runs over the same records
// would not meet.
func (in *intent) key(run string) string { return fmt.Sprintf("%s/step-%d", run, in.number) }

// newPlan draws the intents of a seed.
func newPlan(seed uint64) []*intent {
	rng := rand.New(rand.NewPCG(seed, 0))
	intents := make([]*intent, intentCount)
	for i := range intents {
		intents[i] = &intent{
			number: i + 1,
			tool:   tools()[i%len(tools())],
			way:    way(i / len(tools()) % int(wayCount)),
			rounds: 1 + rng.IntN(3),
			copies: 1,
		}
	}
	special := rng.Perm(intentCount)
	take := func(n int, change func(*intent)) {
		for _, i := range special[:n] {
			change(intents[i])
		}
		special = special[n:]
	}
	take(failingCount, func(in *intent) { in.failing = true })
	take(moodyCount, func(in *intent) { in.mishap.moody = true })
	take(slowCount, func(in *intent) {
		in.mishap.slow, in.copies, in.rounds = 0.5+rng.Float64()*0.3, 3, 1+rng.IntN(2)
	})
	take(doubledCount, func(in *intent) { in.copies = 2 + rng.IntN(2) })
	for _, in := range intents {
		in.fill(rng)
	}
	return intents
}

// fill gives the intent its arguments.
func (in *intent) fill(rng *rand.Rand) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	cents := 100 + rng.IntN(20_000)
	if in.failing {
		cents = 0
	}
	switch in.tool {
	case toolRefund:
		in.subject = fmt.Sprintf("order-%d", 1000+in.number)
		in.fields = []field{
			text("order_id", in.subject), number("cents", cents),
			text("memo", pick("arrived broken", "never arrived", "wrong colour", "came twice")),
		}
	case toolTicket:
		subject := pick("cannot log in", "invoice is missing", "printer is on fire", "wants to cancel")
		if in.failing {
			subject = " "
		}
		in.subject = fmt.Sprintf("customer-%d", 1000+in.number)
		in.fields = []field{text("customer", in.subject), text("subject", subject)}
	case toolStatement:
		month := pick("2026-08", "2026-09", "2026-10", "2026-11")
		if in.failing {
			month = "next month"
		}
		in.subject = fmt.Sprintf("account-%d", 1000+in.number)
		in.fields = []field{text("account", in.subject), text("month", month)}
	case toolLedger:
		in.subject = fmt.Sprintf("account-%d", 1000+in.number)
		in.fields = []field{
			text("account", in.subject), number("cents", cents),
			text("text", pick("monthly fee", "deposit", "voucher", "interest")),
		}
	}
}
