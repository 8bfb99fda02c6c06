package outbox

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// verdict says what becomes of a message behind an attempt: it ends in a state, is given back, or there is another attempt.
type verdict struct {
	Outcome
	state toolcall.MessageState // empty where it does not end
	letBe bool                  // the attempt did not begin

	wait       time.Duration // before the next attempt
	unanswered bool          // this one got no answer
	undone     bool          // nothing was done so far, for certain
	stop       bool          // it is not sent any more, only asked about

	uncounted bool // it ended without an attempt
}

// toSend reports whether the message may be sent, or sent again: not when its time is over, nor when it had all its attempts, nor
// when one of them got no answer and the receiver may have forgotten its key before this one arrives (O06).
func (m *claimed) toSend() bool {
	return !m.late && !m.exhausted() && !m.forgotten()
}

func (m *claimed) exhausted() bool { return m.Attempt > m.d.Retry.attempts() }

func (m *claimed) forgotten() bool {
	return m.d.KeyLifetime > 0 && m.unanswered > 0 && m.unanswered+time.Since(m.at)+m.d.Timeout > m.d.KeyLifetime
}

// last reports whether there is no further attempt.
func (m *claimed) last() bool { return m.Attempt >= m.d.Retry.attempts() }

// notSent ends a message that may not be sent, and of which no attempt can have had an effect.
func (m *claimed) notSent() verdict {
	v := verdict{state: toolcall.MessageFailed, uncounted: true, Outcome: Outcome{Reason: "it had all its attempts"}}
	if m.late {
		v.state, v.Reason = toolcall.MessageExpired, "its time was over before it was delivered"
	}
	return v
}

// unknown ends a message that may have had its effect, where nobody knows.
func (m *claimed) unknown() verdict {
	return verdict{state: toolcall.MessageUnknown, uncounted: true, Outcome: Outcome{Reason: "an attempt got no answer, and it cannot be sent or asked about any more"}}
}

// sent says what becomes of the message behind an attempt to deliver it.
func (m *claimed) sent(out Outcome) verdict {
	v := verdict{Outcome: out}
	switch {
	case out.Class == Delivered:
		v.state = toolcall.MessageDelivered
	case out.Class == Retry && !m.last():
		v.wait = m.pause(out)
	case out.Class == Unanswered && !m.last():
		v.wait, v.unanswered = m.pause(out), true
	case out.Class == Unanswered:
		v.unanswered = true
		m.doubt(&v)
	case m.unanswered > 0: // refused now, but an earlier attempt may have had its effect (I5)
		m.doubt(&v)
	default:
		v.state = toolcall.MessageFailed
	}
	return v
}

// doubt ends sending a message that may have had its effect: who can be asked is asked.
func (m *claimed) doubt(v *verdict) {
	if m.d.Probe == nil {
		v.state = toolcall.MessageUnknown
		v.Reason = "an attempt got no answer; the last one: " + v.Reason
		return
	}
	v.stop, v.wait = true, m.d.Retry.wait(m.Attempt)
}

// probed says what becomes of the message behind a question to the receiver.
func (m *claimed) probed(out Outcome) verdict {
	v := verdict{Outcome: out}
	switch {
	case out.Class == Delivered:
		v.state = toolcall.MessageDelivered
	case out.Class == Rejected, out.Class == Gone, out.Class == Retry && (m.late || m.exhausted()):
		v.state = toolcall.MessageFailed
	case out.Class == Retry:
		v.undone, v.wait = true, min(max(out.RetryAfter, 0), longestAfter)
	case m.Attempt >= 2*m.d.Retry.attempts():
		v.state = toolcall.MessageUnknown
	default:
		v.wait = m.d.Retry.wait(min(m.Attempt, len(m.d.Retry)))
	}
	return v
}

// longestAfter bounds what a receiver may ask for.
const longestAfter = 24 * time.Hour

// pause is how long to wait before the next attempt: never shorter than the receiver asked for, and not the same for all that
// heard the same (O04).
func (m *claimed) pause(out Outcome) time.Duration {
	after := min(max(out.RetryAfter, 0), longestAfter)
	if after > 0 {
		after += rand.N(after/10 + time.Millisecond)
	}
	return max(m.d.Retry.wait(m.Attempt), after)
}

const (
	mostReason   = 1000
	mostResponse = 64 << 10
)

// clean makes what a publisher said fit for the table: no size, and no byte that Postgres does not take, may keep a result
// from being noted.
func (v *verdict) clean() {
	v.Reason, v.ProviderID = cut(v.Reason, mostReason), cut(v.ProviderID, mostName)
	v.Response = v.Response[:min(len(v.Response), mostResponse)]
	v.Status = min(max(v.Status, math.MinInt32), math.MaxInt32)
}

func cut(s string, most int) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), most)], "\x00", ""), "")
}
