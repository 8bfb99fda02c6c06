package txidem

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/txonce/txonce/toolcall"
)

// encodeAnswer gives the bytes that are stored and returned, now and on each replay. A json.RawMessage stands for
// itself, spacing and all (an empty one for null); everything else is what encoding/json makes of it.
func encodeAnswer(value any) ([]byte, error) {
	if raw, ok := value.(json.RawMessage); ok && len(raw) > 0 {
		if !json.Valid(raw) {
			return nil, fmt.Errorf("%w: the json.RawMessage is not JSON", ErrAnswer)
		}
		return raw, nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return raw, nil
}

func decodeAnswer(raw []byte, value any) error {
	if target, ok := value.(*json.RawMessage); ok {
		*target = raw
		return nil
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("%w: its answer does not decode into the result's type; give the tool a new name when its result changes: %w", ErrRecord, err)
	}
	return nil
}

func encodeFailure(failure *toolcall.Failure) ([]byte, error) {
	raw, err := json.Marshal(failure)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return raw, nil
}

func decodeFailure(raw []byte) error {
	failure := &toolcall.Failure{}
	if err := json.Unmarshal(raw, failure); err != nil {
		return fmt.Errorf("%w: its failure cannot be read: %w", ErrRecord, err)
	}
	return failure
}

// failureIn returns the failure that a handler asked to be recorded, if err is one.
func failureIn(err error) (*toolcall.Failure, bool) {
	var failure *toolcall.Failure
	return failure, errors.As(err, &failure) && failure != nil
}
