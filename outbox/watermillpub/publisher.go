package watermillpub

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/txonce/txonce/outbox"
)

// Config is what a [Publisher] can be told. The zero value of a field means its default.
type Config struct {
	// Topic is where messages go. Defaults to the Address of each: a message without one is refused when it is published.
	Topic string

	// TopicOf says where a message goes, instead of Topic and Address. It must say the same in each attempt. One for which it says
	// "" is rejected when it is to be delivered. Defaults to nobody to ask.
	TopicOf func(d outbox.Delivery) string

	// Classify says what an error of Publish means. It may say Retry, Rejected or Gone only of errors that the publisher returns when the
	// broker has not taken the message, and will not: those before anything was sent, and refusals of the broker. Anything
	// else counts as Unanswered. Defaults to Unanswered for all.
	Classify func(err error) outbox.Class
}

// Publisher is an [outbox.Publisher] that hands messages to one of Watermill's. It may be used by many goroutines at once.
type Publisher struct {
	to  message.Publisher
	cfg Config
}

// New makes a publisher of one of Watermill's. It starts nothing and closes nothing. cfg may be nil. It returns an error if there
// is no publisher, or where messages go is said twice.
func New(to message.Publisher, cfg *Config) (*Publisher, error) {
	if to == nil {
		return nil, errors.New("watermillpub: New needs one of Watermill's publishers")
	}
	p := &Publisher{to: to}
	if cfg != nil {
		p.cfg = *cfg
	}
	if p.cfg.Topic != "" && p.cfg.TopicOf != nil {
		return nil, errors.New("watermillpub: Config has Topic and TopicOf; leave one of them out")
	}
	return p, nil
}

// Check refuses what could not be delivered: a message without a topic, and one whose headers have names that are kept for what
// tells messages apart.
func (p *Publisher) Check(m outbox.Message) error {
	if p.cfg.Topic == "" && p.cfg.TopicOf == nil && m.Address == "" {
		return errors.New("watermillpub: the message has no topic; give it an Address, or set Config.Topic")
	}
	return checkHeaders(m.Headers)
}

func checkHeaders(headers map[string]string) error {
	for name := range headers {
		if reserved(name) {
			return fmt.Errorf("watermillpub: a header is called %q, which is kept for the message itself; give it another name", name)
		}
	}
	return nil
}

// Deliver hands the message to Watermill's publisher and waits until that returns. It rejects what Check refuses: a process that only
// publishes to the destination has no publisher to ask.
func (p *Publisher) Deliver(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	topic := p.topic(d)
	if topic == "" {
		return outbox.Outcome{Class: outbox.Rejected, Reason: "watermillpub: the message has no topic; redrive it when Config says one"}, nil
	}
	if err := checkHeaders(d.Headers); err != nil {
		return outbox.Outcome{Class: outbox.Rejected, Reason: err.Error()}, nil
	}
	if err := ctx.Err(); err != nil {
		return outbox.Outcome{Class: outbox.Retry, Reason: "watermillpub: not handed over, its time had ended: " + err.Error()}, nil
	}
	err := p.to.Publish(topic, messageOf(ctx, d))
	if err == nil {
		return outbox.Outcome{Class: outbox.Delivered}, nil
	}
	err = fmt.Errorf("watermillpub: topic %q: %w", topic, err)
	if class := p.classify(err); class != outbox.Unanswered {
		return outbox.Outcome{Class: class, Reason: err.Error()}, nil
	}
	return outbox.Outcome{}, err
}

func (p *Publisher) topic(d outbox.Delivery) string {
	switch {
	case p.cfg.TopicOf != nil:
		return p.cfg.TopicOf(d)
	case p.cfg.Topic != "":
		return p.cfg.Topic
	}
	return d.Address
}

// classify never takes an error for a delivery: nothing is acknowledged that the publisher did not acknowledge (O03).
func (p *Publisher) classify(err error) outbox.Class {
	if p.cfg.Classify == nil {
		return outbox.Unanswered
	}
	switch class := p.cfg.Classify(err); class {
	case outbox.Retry, outbox.Rejected, outbox.Gone:
		return class
	}
	return outbox.Unanswered
}
