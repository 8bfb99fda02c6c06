package txidem

import (
	"context"
	"fmt"
)

// Codec stands between answers and the table: encryption, compression, leaving out what must not be kept. Answers and
// recorded failures pass through it. It is used by many goroutines at once.
//
// r says which call it is, to bind what is stored to it; of its fields, only ID, Scope, Tool and Failed are the same in
// Encode and Decode. The answer is JSON; what is stored may be any bytes, at most Policy.MaxAnswer of them. A replay is what Decode makes
// of what is stored: where that is not what Encode was given, as with redaction, replays differ from the first answer.
//
// An error of Encode fails the call before it commits, and one of Decode a replay, both with ErrCodec; the record stays.
// So a codec must go on decoding what its earlier versions encoded, for as long as records are kept: begin the bytes with a
// version. Several processes share the table, so let all of them decode a new version before one encodes it. What was
// recorded before there was a codec is JSON as it is, which begins with no byte below 9.
//
// Around an effect elsewhere (RunLeased), an error of Encode comes behind the effect, which is then open as after a crash.
type Codec interface {
	// Encode makes of an answer what is stored. Its context does not end with the caller's, but after Policy.CommitTimeout.
	Encode(ctx context.Context, r Recorded, answer []byte) (stored []byte, err error)
	// Decode makes the answer of what Encode has made.
	Decode(ctx context.Context, r Recorded, stored []byte) (answer []byte, err error)
}

// encode makes of an answer what is stored. The handler has returned, so the caller's context does not end it.
func (s *Store) encode(ctx context.Context, id *identity, failed bool, answer []byte) ([]byte, error) {
	if s.codec == nil {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	stored, err := guarded(func() ([]byte, error) {
		return s.codec.Encode(ctx, Recorded{ID: id.ID, Scope: id.scope, Tool: id.tool, Failed: failed}, answer)
	})
	if err != nil {
		return nil, fmt.Errorf("%w to encode the answer: %w", ErrCodec, err)
	}
	if len(stored) > id.policy.MaxAnswer {
		return nil, tooLarge("what the codec made of the answer", len(stored), id.policy)
	}
	return append([]byte{}, stored...), nil // nil would be no answer, and the codec may use its buffer again
}

// decode makes an answer of what is stored.
func (s *Store) decode(ctx context.Context, id *identity, rec *record, stored []byte) ([]byte, error) {
	if s.codec == nil {
		return stored, nil
	}
	answer, err := guarded(func() ([]byte, error) { return s.codec.Decode(ctx, rec.recorded(id.ID), stored) })
	if err != nil {
		return nil, fmt.Errorf("%w to decode the record of %s: %w", ErrCodec, id.ID, err)
	}
	return answer, nil
}

// guarded calls code of the user's that is not a handler. A panic becomes an error.
func guarded(call func() ([]byte, error)) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return call()
}

func tooLarge(what string, size int, policy Policy) error {
	return fmt.Errorf("%w: %s has %d bytes, %d are allowed; return a reference to it", ErrAnswerTooLarge, what, size, policy.MaxAnswer)
}
