package statustool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/txonce/txonce/toolcall"
)

// Message is what is said about a message that a call or a job has sent out of the database: not what it says, where it went,
// or why it was refused, which is for operators.
type Message struct {
	ID            string                `json:"id"`
	Destination   string                `json:"destination"`
	Effect        string                `json:"effect"` // what it is for within the call
	State         toolcall.MessageState `json:"state"`
	Attempts      int                   `json:"attempts,omitempty"`    // that have begun
	Status        int                   `json:"status,omitempty"`      // what the receiver answered last, such as an HTTP status
	ProviderID    string                `json:"provider_id,omitempty"` // the receiver's name for what it did
	NextAttemptAt time.Time             `json:"next_attempt_at,omitzero"`
	EndedAt       time.Time             `json:"ended_at,omitzero"`
}

const (
	// mostMessages bounds how many messages of one call or job are told of.
	mostMessages = 50
	// mostMessageAsks bounds how many calls travel in one question: each may have as many messages.
	mostMessageAsks = 100
	// longestMessages bounds how long a status waits for its messages. It is told without them then.
	longestMessages = 3 * time.Second
)

// sent is what was found out about the messages of a call or a job.
type sent struct {
	messages []toolcall.MessageStatus
	err      error // it could not be found out
}

// mailbox asks what became of messages. A nil one has none: the tool was given no outbox.
type mailbox struct {
	source toolcall.MessageSource
	asker  asker[sent]
	log    *slog.Logger
}

func newMailbox(source toolcall.MessageSource, log *slog.Logger) *mailbox {
	if source == nil {
		return nil
	}
	m := &mailbox{source: source, log: log}
	m.asker = asker[sent]{look: m.look, longest: longestMessages, most: mostMessageAsks}
	return m
}

// of asks for the messages of a call or a job of which the status is known. What has not ended has sent none, and neither has what
// ended without an effect: nobody is asked about it.
func (m *mailbox) of(ctx context.Context, ask toolcall.Ask, state toolcall.State) sent {
	if m == nil || state != toolcall.StateSucceeded && state != toolcall.StateExpired {
		return sent{}
	}
	limited, cancel := context.WithTimeout(ctx, longestMessages)
	defer cancel()
	found, err := m.asker.ask(limited, ask)
	if err != nil {
		found.err = err
	}
	if found.err != nil && ctx.Err() == nil {
		m.log.ErrorContext(ctx, "statustool: the messages of a call could not be read", "id", ask.ID, "scope", ask.Scope, "error", found.err)
	}
	return found
}

// look asks about each call once: many may have waited for the end of the same job.
func (m *mailbox) look(ctx context.Context, asks []toolcall.Ask) []sent {
	places := make(map[toolcall.Ask]int, len(asks))
	var once []toolcall.Ask
	for _, ask := range asks {
		if _, twice := places[ask]; !twice {
			places[ask] = len(once)
			once = append(once, ask)
		}
	}
	found, err := m.messages(ctx, once)
	answers := make([]sent, len(asks))
	for i, ask := range asks {
		if answers[i].err = err; err == nil {
			answers[i].messages = found[places[ask]]
		}
	}
	return answers
}

// messages asks, and outlives a source that panics.
func (m *mailbox) messages(ctx context.Context, asks []toolcall.Ask) (found [][]toolcall.MessageStatus, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("statustool: a source of messages panicked: %v\n%s", v, debug.Stack())
		}
	}()
	found, err = m.source.Messages(ctx, asks)
	if err == nil && len(found) != len(asks) {
		err = errors.New("statustool: a source of messages gave another number of answers than it was asked for; see toolcall.MessageSource")
	}
	return found, err
}

// list is what a report says of them.
func (f sent) list() (messages []Message) {
	for _, m := range f.messages[:min(len(f.messages), mostMessages)] {
		messages = append(messages, Message{
			ID: m.ID.String(), Destination: m.Destination, Effect: m.Effect, State: m.State, Attempts: m.Attempts, Status: m.Status,
			ProviderID: m.ProviderID, NextAttemptAt: m.NextAttemptAt.UTC(), EndedAt: m.EndedAt.UTC(),
		})
	}
	return messages
}

// add puts the messages into the report, whose words are there already.
func (r *Report) add(f sent, s toolcall.Status) {
	r.Messages, r.MessagesUnavailable = f.list(), f.err != nil
	if says := f.words(s); says != "" {
		r.Next += " " + says
	}
}

// words say what became of the messages and what not to do about it, in sentences that stand behind those about the call. They
// are empty where there are no messages.
func (f sent) words(s toolcall.Status) string {
	who, act := "the call", "repeat the call"
	if s.Job != nil {
		who, act = "the job", "submit the job again"
	}
	switch {
	case f.err != nil:
		return "What became of the messages that " + who + " sends, if it sends any, cannot be found out at the moment. That is no reason to " + act + "."
	case len(f.messages) == 0:
		return ""
	}
	n := f.count()
	says := []string{fmt.Sprintf("Messages that %s sends: %s.", who, n)}
	if len(f.messages) >= mostMessages {
		says[0] = fmt.Sprintf("Of the messages that %s sends, the first %d stand in messages: %s.", who, mostMessages, n)
	}
	switch {
	case n.lost+n.unknown > 0 && n.underWay > 0:
		says = append(says, "What is on its way goes by itself.")
	case n.underWay > 0:
		says = append(says, "What is on its way goes by itself: do not "+act+" for it.")
	}
	if n.lost+n.unknown > 0 {
		says = append(says, "Do not "+act+" for what did not arrive"+because(s)+". Do not try another way; tell the people who run this tool.")
	}
	return strings.Join(says, " ")
}

// because says why making the call again sends nothing, where that is so.
func because(s toolcall.Status) string {
	switch {
	case s.State == toolcall.StateExpired:
		return ""
	case s.Job != nil:
		return ": the same call gives the same job, and sends nothing"
	}
	return ": it is answered with the same result, and sends nothing"
}

// fates counts messages by what they mean to the caller.
type fates struct{ delivered, underWay, lost, unknown int }

func (f sent) count() (n fates) {
	for _, m := range f.messages[:min(len(f.messages), mostMessages)] {
		switch {
		case !m.State.Ended():
			n.underWay++
		case m.State == toolcall.MessageDelivered:
			n.delivered++
		case m.State == toolcall.MessageFailed, m.State == toolcall.MessageCancelled, m.State == toolcall.MessageExpired:
			n.lost++
		default:
			n.unknown++
		}
	}
	return n
}

func (n fates) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		form string
	}{
		{n.delivered, "%d delivered"},
		{n.underWay, "%d on the way"},
		{n.lost, "%d that could not be delivered"},
		{n.unknown, "%d that may or may not have been delivered"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf(part.form, part.n))
		}
	}
	return list(parts, "and")
}

// messageMembers are what a report has of messages, for a schema.
func messageMembers() []member {
	state := aText("how far it is")
	state.Enum = enum(messageStates[:])
	one := object([]string{"id", "destination", "effect", "state"},
		member{"id", aText("id of the message")},
		member{"destination", aText("where it goes")},
		member{"effect", aText("what it is for")},
		member{"state", state},
		member{"attempts", aNumber("how often it was sent")},
		member{"status", aNumber("what the receiver answered last")},
		member{"provider_id", aText("the receiver's name for what it did")},
		member{"next_attempt_at", aTime("when it is sent next")},
		member{"ended_at", aTime("when it ended")},
	)
	return []member{
		{"messages", &jsonschema.Schema{Type: "array", Items: one, Description: fmt.Sprintf("the messages that it sends out of the database, %d at most", mostMessages)}},
		{"messages_unavailable", aFlag("what became of its messages cannot be found out at the moment")},
	}
}

// messageStates are all that a Message can have.
var messageStates = [...]toolcall.MessageState{
	toolcall.MessagePending, toolcall.MessageDelivering, toolcall.MessageDelivered, toolcall.MessageFailed, toolcall.MessageUnknown,
	toolcall.MessageCancelled, toolcall.MessageExpired,
}
