package lives

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Lines reads what a process told, a line of JSON each. What comes behind the last line feed is torn: it was told to nobody.
func Lines[T any](stdout []byte) (all []T, torn bool, err error) {
	for {
		line, rest, complete := bytes.Cut(stdout, []byte{'\n'})
		if !complete {
			return all, len(line) > 0, nil
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return all, false, fmt.Errorf("line %q: %w", line, err)
		}
		all, stdout = append(all, one), rest
	}
}
