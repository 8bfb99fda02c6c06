// Package outboxtest has the tests that every [outbox.Publisher] should pass. [Run] runs them:
//
//	func TestPublisher_O07_Conformance(t *testing.T) {
//		outboxtest.Run(t, func(t *testing.T) outboxtest.Harness {
//			broker := newBroker(t)
//			return outboxtest.Harness{
//				Publisher: mypub.New(broker.URL),
//				Received:  broker.received,
//				Behave:    broker.behave,
//				Cannot:    map[outboxtest.Ability]string{outboxtest.Throttle: "the broker has no such answer"},
//			}
//		})
//	}
//
// A [Harness] is a publisher and the far side that it delivers to: the suite tells the far side how to behave, and reads what it
// has taken. A far side that cannot behave in some way says so in [Harness].Cannot, with the reason; what depends on it is
// skipped then, under that reason.
//
// # What is tested
//
//   - Id, key, headers and body arrive as they are, byte for byte, in each attempt: bodies without a byte, with all bytes, and of 256 KiB.
//   - What is delivered one by one arrives in that order.
//   - Delivered is what the far side has taken, and nothing else. What it refuses is Retry, Rejected or Gone. When it takes
//     a message and does not say so, that is Unanswered, and so is the end of the context.
//   - A context that ends is heeded; one that has ended already sends nothing that is then called undone.
//   - 64 deliveries at a time do not mix.
//   - A Delivery is read only, whatever is in it causes no panic, and no goroutine is left.
//   - Check passes what can be delivered, without asking the far side, and refuses what the harness says it must.
//
// Nothing is measured: what does not end within a minute has failed.
//
// It may import outbox, toolcall, go-cmp and the standard library's testing.
package outboxtest
