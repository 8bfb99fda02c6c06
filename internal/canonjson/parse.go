package canonjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxSize is the longest input in bytes, white space included.
const MaxSize = 4 << 20

// parse checks raw and appends the same value without white space and with strings in their canonical spelling;
// numbers and the order of members are as they came. jsontext does all of it in one pass over pooled buffers, so that
// everything behind this point walks text that is known to be valid and never parses what a stranger wrote. A
// jsontext.Decoder of our own costs 23 allocations for a typical call; this costs none.
func parse(dst, raw []byte) ([]byte, error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("%w (%d bytes)", ErrTooLarge, len(raw))
	}
	// Without options jsontext refuses duplicate names and invalid UTF-8 (RFC 7493), adds no white space and leaves
	// <, >, & and U+2028 alone.
	text, err := jsontext.AppendFormat(dst, raw)
	if err != nil {
		return nil, cmp.Or(explain(raw), ErrSyntax)
	}
	return text, nil
}

// explain says why jsontext refused raw. It reads raw once more, with a decoder, because only that tells a value that is
// followed by more from a value that is broken.
func explain(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := d.ReadValue(); err != nil {
		return classify(raw, err)
	}
	return atEnd(d)
}

// atEnd returns an error unless only white space is left.
func atEnd(d *jsontext.Decoder) error {
	end := d.InputOffset()
	if _, err := d.ReadToken(); err == io.EOF {
		return nil
	}
	return fmt.Errorf("%w (after byte %d)", ErrTrailingData, end)
}

// classify turns an error of jsontext into one of ours. The original is not wrapped: it may quote the input, and what
// callers may match are our names.
func classify(raw []byte, err error) error {
	if err == io.EOF {
		return ErrEmpty
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return ErrSyntax
	}
	path, offset := string(syntax.JSONPointer), int(syntax.ByteOffset)
	kind := ErrSyntax
	switch {
	case !utf8.Valid(raw):
		kind = ErrInvalidUTF8
	case strings.Count(path, "/") > MaxDepth: // jsontext has a limit of its own, 10,000, and no exported error for it
		kind = ErrTooDeep
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		kind = ErrDuplicateName
	case startsWithSurrogate(raw, offset):
		kind = ErrLoneSurrogate
	}
	if path == "" {
		return fmt.Errorf("%w (byte %d)", kind, offset)
	}
	return fmt.Errorf("%w (at %s, byte %d)", kind, shortPath(path), offset)
}

// startsWithSurrogate reports whether the error is at a well-formed \ud escape: then it is the character that jsontext
// refuses, and half a surrogate pair is the only kind that it does.
func startsWithSurrogate(raw []byte, offset int) bool {
	if offset < 0 || len(raw)-offset < len(`\ud800`) {
		return false
	}
	escape := bytes.ToLower(raw[offset : offset+len(`\ud800`)])
	return bytes.HasPrefix(escape, []byte(`\ud`)) && len(bytes.Trim(escape[len(`\u`):], "0123456789abcdef")) == 0
}
