package canonjson

import (
	"bytes"
	"strconv"
)

// MaxDigits is how many significant digits a number may have, and MaxExponent the greatest magnitude of its canonical
// exponent. Both are far beyond money, timestamps and doubles (17 digits, 308), and small enough that a reader with
// any decimal library can hold what was accepted.
const (
	MaxDigits   = 1024
	MaxExponent = 9999
)

// appendNumber appends the canonical spelling of a JSON number.
//
// This normalises a spelling; it does not parse: the token is known to be a number. A decimal library gives the same
// result (the tests hold it to apd and to math/big), but it builds a big integer on the way, quadratic in the digits,
// and its own spelling is not ours to freeze.
func appendNumber(dst, tok []byte) ([]byte, error) {
	start := len(dst)
	mantissa, exponent := tok, []byte(nil)
	if i := bytes.IndexAny(tok, "eE"); i >= 0 {
		mantissa, exponent = tok[:i], tok[i+1:]
	}
	if mantissa[0] == '-' {
		dst, mantissa = append(dst, '-'), mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	digits := len(dst)
	dst = append(append(dst, whole...), fraction...)
	leading := bytes.TrimLeft(dst[digits:], "0")
	trimmed := bytes.TrimRight(leading, "0")
	zeros := len(leading) - len(trimmed)
	dst = dst[:digits+copy(dst[digits:], trimmed)]
	if len(dst) == digits {
		return append(dst[:start], '0'), nil // zero has no sign and no exponent
	}
	exp, ok := parseExponent(exponent)
	exp += zeros - len(fraction)
	if !ok || len(dst)-digits > MaxDigits || exp > MaxExponent || exp < -MaxExponent {
		return nil, ErrNumberRange
	}
	return appendExponent(dst, exp), nil
}

func appendExponent(dst []byte, exp int) []byte {
	if exp == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, 'e'), int64(exp), 10)
}

// parseExponent reads what follows the letter e. More than nine digits are beyond every limit: the longest mantissa
// has MaxSize digits and moves the exponent by no more.
func parseExponent(text []byte) (exp int, ok bool) {
	negative := bytes.HasPrefix(text, []byte{'-'})
	text = bytes.TrimLeft(text, "+-")
	text = bytes.TrimLeft(text, "0")
	if len(text) > 9 {
		return 0, false
	}
	for _, c := range text {
		exp = exp*10 + int(c-'0')
	}
	if negative {
		exp = -exp
	}
	return exp, true
}
