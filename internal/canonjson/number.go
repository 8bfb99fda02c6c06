package canonjson

import (
	"bytes"
	"fmt"
	"math/big"
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

// maxRounded is how many digits a rounded number may have when it is written out in the unit's last digit; a larger
// one counts as it is. It keeps 1e9999 from growing to ten thousand digits.
const maxRounded = 64

// step is a positive decimal, coefficient times ten to the exp, to a multiple of which numbers are rounded down.
type step struct {
	coefficient *big.Int
	exp         int
}

func newStep(text string) (*step, error) {
	tok, err := appendNumber(nil, []byte(text))
	if err != nil || tok[0] == '-' || tok[0] == '0' || len(tok) > maxRounded {
		return nil, fmt.Errorf("%q must be positive and have at most %d digits", text, maxRounded)
	}
	_, digits, exp := splitNumber(tok)
	if exp < -maxRounded || exp > maxRounded {
		return nil, fmt.Errorf("%q must have an exponent between -%d and %d", text, maxRounded, maxRounded)
	}
	s := &step{coefficient: new(big.Int), exp: exp}
	s.coefficient.SetString(string(digits), 10)
	return s, nil
}

// floor returns the greatest multiple of s that is not above the canonical number, in canonical spelling.
func (s *step) floor(number []byte) []byte {
	negative, digits, exp := splitNumber(number)
	shift := exp - s.exp // the number is digits times ten to the shift, in units of the step's last digit
	if len(digits)+shift > maxRounded {
		return number
	}
	n, partial := new(big.Int), false
	switch cut := min(-shift, len(digits)); {
	case cut > 0: // digits below the unit's last can only matter by not being zero, which canonical ones are not
		n.SetString("0"+string(digits[:len(digits)-cut]), 10)
		partial = string(digits) != "0"
	default:
		n.SetString(string(digits)+string(bytes.Repeat([]byte{'0'}, shift)), 10)
	}
	if negative {
		n.Neg(n)
		if partial {
			n.Sub(n, big.NewInt(1))
		}
	}
	n.Sub(n, new(big.Int).Mod(n, s.coefficient)) // Mod is Euclidean: never negative
	out, _ := appendNumber(nil, appendExponent(n.Append(nil, 10), s.exp))
	return out
}

// splitNumber takes a canonical number apart.
func splitNumber(number []byte) (negative bool, digits []byte, exp int) {
	if number[0] == '-' {
		negative, number = true, number[1:]
	}
	digits, exponent, _ := bytes.Cut(number, []byte{'e'})
	exp, _ = parseExponent(exponent)
	return negative, digits, exp
}
