// Package keyheader reads the HTTP header Idempotency-Key.
//
// The IETF draft (draft-ietf-httpapi-idempotency-key-header-07) makes its value a string of a structured field (RFC 9651),
// and most clients send it bare: "abc" and abc are one key here (H01). [Parse] is all there is. Which keys are good,
// by length and characters, is for package txidem to say.
//
// It may import httpsfv, for the quoted form.
package keyheader

import (
	"errors"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Name is the header's name, in its canonical form.
const Name = "Idempotency-Key"

// What can be wrong with the header. The texts are for the people who write clients.
var (
	// ErrSeveral is returned when the request has the header more than once.
	ErrSeveral = errors.New("the request has more than one header Idempotency-Key; send one")
	// ErrEmpty is returned when there is the header and no key in it.
	ErrEmpty = errors.New("the header Idempotency-Key is empty; send a key of 1 to 255 characters, such as a UUID")
	// ErrMalformed is returned when the value begins with a quotation mark and is not a string of a structured field.
	ErrMalformed = errors.New(`the header Idempotency-Key begins with a quotation mark and is not a string as RFC 9651 writes it; send "key" or key`)
)

// Parse returns the key in the header's values, as http.Header.Values gives them: the empty string where there is no
// header. A value that begins with a quotation mark is a string with its escapes; parameters behind it are ignored. Every
// other value is the key as it is.
func Parse(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", ErrSeveral
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{key})
		text, ok := item.Value.(string)
		if err != nil || !ok {
			return "", ErrMalformed
		}
		key = text
	}
	if key == "" {
		return "", ErrEmpty
	}
	return key, nil
}
