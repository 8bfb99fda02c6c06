package watermillpub

import (
	"bytes"
	"context"
	"maps"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/txonce/txonce/outbox"
)

// What the metadata of a message is called beside its headers. Each is there if the message has one.
const (
	MetadataKey         = "idempotency_key" // what a consumer should do once for
	MetadataOrderingKey = "ordering_key"
	MetadataType        = "type"
)

// reserved reports whether a header of this name could pass for something else. Watermill's marshalers keep the UUID in metadata
// that begins with _watermill, and let a message's own metadata of that name win.
func reserved(name string) bool {
	switch name = strings.ToLower(name); name {
	case MetadataKey, MetadataOrderingKey, MetadataType:
		return true
	}
	return strings.HasPrefix(name, "_watermill")
}

// messageOf makes a message for one attempt: a publisher may change what it is given.
func messageOf(ctx context.Context, d outbox.Delivery) *message.Message {
	m := message.NewMessageWithContext(ctx, d.ID.String(), bytes.Clone(d.Body))
	maps.Copy(m.Metadata, d.Headers)
	for name, value := range map[string]string{MetadataKey: d.Key, MetadataOrderingKey: d.OrderingKey, MetadataType: d.Type} {
		if value != "" {
			m.Metadata.Set(name, value)
		}
	}
	return m
}
