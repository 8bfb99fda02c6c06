package canonjson

import (
	"errors"
	"fmt"
)

// Errors about the input. Each is returned, wrapped with a path or an offset but never with a value, when the bytes do
// not have an exact fingerprint.
var (
	// ErrEmpty is returned when there is no JSON value at all.
	ErrEmpty = errors.New("canonjson: the input is empty: send one JSON value, {} for no arguments")
	// ErrSyntax is returned when the input is not JSON.
	ErrSyntax = errors.New("canonjson: the input is not valid JSON: correct it")
	// ErrTrailingData is returned when something other than white space follows the value.
	ErrTrailingData = errors.New("canonjson: data follows the JSON value: send one value only")
	// ErrDuplicateName is returned when an object has two members of one name, compared after unescaping.
	ErrDuplicateName = errors.New("canonjson: an object names a member twice: send each name once")
	// ErrInvalidUTF8 is returned when the input has bytes that are not UTF-8.
	ErrInvalidUTF8 = errors.New("canonjson: the input is not UTF-8: encode it as UTF-8")
	// ErrLoneSurrogate is returned when a string has half a surrogate pair, such as "\ud800".
	ErrLoneSurrogate = errors.New("canonjson: a string has half a surrogate pair: send whole characters")
	// ErrTooLarge is returned when the input is longer than MaxSize.
	ErrTooLarge = errors.New("canonjson: the input is larger than 4 MiB: send less, or a reference to it")
	// ErrTooDeep is returned when objects and arrays are nested more than MaxDepth deep.
	ErrTooDeep = errors.New("canonjson: the input is nested more than 64 deep: flatten it")
	// ErrNumberRange is returned when a number has more than MaxDigits digits or an exponent beyond MaxExponent.
	ErrNumberRange = errors.New("canonjson: a number is out of range (1024 digits, exponent 9999): send it as a string")
	// ErrNotObject is returned by TakeString when the input is another value than an object.
	ErrNotObject = errors.New("canonjson: the input is not an object: send the arguments as an object")
	// ErrNotString is returned by TakeString when the member is there but is not a string.
	ErrNotString = errors.New("canonjson: the member is not a string: send it as a string, or leave it out")
)

// Errors about what the program passed.
var (
	// ErrUnknownVersion is returned when a record was written by a version of the canonical form, or of the field
	// hashes, that this build does not know.
	ErrUnknownVersion = errors.New("canonjson: unknown version: upgrade this process to the release that wrote the record")
	// ErrBadRule is returned by Compile and RulesFor; the message names the path or the struct field.
	ErrBadRule = errors.New("canonjson: bad rule")
	// ErrCorrupt is returned by Diff when the stored bytes are not what Fields wrote.
	ErrCorrupt = errors.New("canonjson: the stored field hashes are corrupt: the differing paths cannot be named")
)

// located is an error on its way up: every level of the walk puts its own token in front, so that a walk that
// succeeds pays nothing for paths.
type located struct {
	err  error
	path string
}

func (e *located) Error() string { return fmt.Sprintf("%v (at %s)", e.err, shortPath(e.path)) }
func (e *located) Unwrap() error { return e.err }

// under says that err occurred below the member or element called token.
func under(err error, token []byte) error {
	path := string(appendToken(nil, token))
	if inner, ok := err.(*located); ok {
		inner.path = path + inner.path
		return inner
	}
	return &located{err: err, path: path}
}
