// Package watermillpub hands the messages of an outbox to one of Watermill's publishers, and so to Kafka, NATS JetStream, AMQP, Google
// Pub/Sub, SQS, Redis Streams and others.
//
// [New] makes an [outbox.Publisher] of one.
//
//	events, err := watermillpub.New(publisher, &watermillpub.Config{Topic: "refunds"})
//	box, err := outbox.New(pool, nil, outbox.Destination{Name: "events", Publisher: events})
//
// Watermill's message has the id of the outbox's message as its UUID, the body as its payload, byte for byte, and as metadata the
// headers and what [MetadataKey], [MetadataOrderingKey] and [MetadataType] name. It is the same in each attempt.
//
// # What it promises
//
// A message is delivered when Publish has returned nil. Any error is Unanswered, for Watermill does not say whether the broker has
// the message (Config.Classify may know better): the outbox hands the message over again, so a consumer may get it more than once,
// with the same UUID and key. It should do once per key what it does.
//
// # The publisher must wait for the broker
//
// Publish has to return nil only when the broker has the message for good. Not all of Watermill's do as they come:
//
//   - NATS (watermill-nats): with JetStream, not with JetStreamConfig.Disabled. With TrackMsgId the stream drops a message that comes
//     again within its Duplicates window, 2 minutes by default.
//   - AMQP: Config.Publish.ConfirmDelivery must be true, and the exchange and the queue durable.
//   - Kafka: as it comes it waits for the partition's leader; set Producer.RequiredAcks to WaitForAll for all in-sync replicas. For the
//     order of an ordering key across partitions, give it a partitioning marshaler that reads MetadataOrderingKey.
//   - Go channels: they live in the process, and what has no subscriber is gone. For tests.
//
// A publisher with a queue of its own (forwarders, batching wrappers) takes messages that may be lost when the process dies.
//
// # Time
//
// Publish has no context. The message has one ([message.Message.Context]), which ends with Destination.Timeout, and few publishers
// look at it: give the client of the broker a shorter timeout of its own. Deliver waits for Publish, however long that takes. The
// outbox notes the attempt as unanswered a second after Destination.Timeout, and the call that hangs keeps one of the destination's
// Concurrency until it returns: when all of them hang, nothing is delivered there. A call that was given up may still hand its message
// over later: once more, or behind messages with its ordering key that have followed it since.
//
// # Limits
//
//   - Names of metadata are those of the headers, with their case. A message whose headers have one of the names above, or one that
//     begins with _watermill, in whatever case, is refused when it is published, or rejected when it is to be
//     delivered: it could pass for another message.
//   - What a broker refuses for ever, such as a message that is too large, is tried again until Destination.Retry ends, and is
//     unknown then, unless Config.Classify says that it was rejected.
//   - The publisher is the caller's to close, after Run has returned.
//
// It may import outbox and Watermill's package message. It is a module of its own, for Watermill's dependencies; fetch both:
// go get github.com/txonce/txonce github.com/txonce/txonce/outbox/watermillpub.
package watermillpub
