package main

import (
	"bytes"
	"fmt"
	"io"
)

// everySoMany tests a dot is printed.
const everySoMany = 25

// ticker prints a dot for so many tests that have ended, so that one sees that the run goes on.
type ticker struct {
	out   io.Writer
	ended int
}

// Write takes a part of the output of go test -json.
func (t *ticker) Write(b []byte) (int, error) {
	before := t.ended / everySoMany
	t.ended += bytes.Count(b, []byte(`"Action":"pass"`))
	for range t.ended/everySoMany - before {
		_, _ = fmt.Fprint(t.out, ".")
	}
	return len(b), nil
}
