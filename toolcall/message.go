package toolcall

import (
	"context"
	"time"
)

// MessageState says how far a message has come that a call has sent out of the database.
type MessageState string

// The states of a message. From MessageDelivered on it has ended, and only an operator who has it sent again changes that.
const (
	// MessagePending: it waits for its first or its next attempt, or for the messages before it.
	MessagePending MessageState = "pending"
	// MessageDelivering: an attempt is under way.
	MessageDelivering MessageState = "delivering"
	// MessageDelivered: the receiver has taken it.
	MessageDelivered MessageState = "delivered"
	// MessageFailed: the receiver refused it, or did not take it in any of the attempts. It had no effect there.
	MessageFailed MessageState = "failed"
	// MessageUnknown: no answer came to an attempt, and it cannot be found out whether it had its effect.
	MessageUnknown MessageState = "unknown"
	// MessageCancelled: an operator cancelled it before it was sent.
	MessageCancelled MessageState = "cancelled"
	// MessageExpired: its time was over before it could be delivered.
	MessageExpired MessageState = "expired"
)

// Ended reports whether nothing more happens to a message in this state by itself.
func (s MessageState) Ended() bool { return s != MessagePending && s != MessageDelivering }

// MessageStatus is what may be said about a message to the caller whose call has sent it. All times are by the database's clock.
type MessageStatus struct {
	ID            ID
	Destination   string
	Effect        string // what it is for within the call
	State         MessageState
	Attempts      int       // that have begun
	Status        int       // what the receiver answered last, such as an HTTP status; zero for none
	ProviderID    string    // the receiver's name for what it did, if it said one
	NextAttemptAt time.Time // while MessagePending: when the next attempt is due
	EndedAt       time.Time // when it ended
}

// MessageSource knows what became of the messages of calls and jobs. The outbox is one.
type MessageSource interface {
	// Messages answers each ask, in their order, with the messages that the call or job has sent, in the order in which it sent
	// them. What is another scope's has none.
	Messages(ctx context.Context, asks []Ask) ([][]MessageStatus, error)
}
