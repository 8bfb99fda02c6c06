package canonjson

import (
	"bytes"
	"fmt"
)

const (
	// maxRounded is how many digits a number may have, counted from the unit's last one, to be rounded; a longer one
	// counts as it is. It keeps 1e9999 from being written out.
	maxRounded = 40
	// maxUnit is how many digits a unit may have, so that a remainder times ten fits into 64 bits.
	maxUnit = 18
)

// step is a positive decimal, unit times ten to the exp, to a multiple of which numbers are rounded down.
type step struct {
	unit uint64
	exp  int
}

func newStep(text string) (*step, error) {
	tok, err := appendNumber(nil, []byte(text))
	if err != nil || tok[0] == '-' || tok[0] == '0' {
		return nil, fmt.Errorf("%q must be positive", text)
	}
	_, digits, exp := splitNumber(tok)
	if len(digits) > maxUnit || exp < -maxRounded || exp > maxRounded {
		return nil, fmt.Errorf("%q must have at most %d digits and an exponent between -%d and %d", text, maxUnit, maxRounded, maxRounded)
	}
	s := &step{exp: exp}
	for _, c := range digits {
		s.unit = s.unit*10 + uint64(c-'0')
	}
	return s, nil
}

// floor replaces the canonical number dst[lo:] with the greatest multiple of s that is not above it.
func (s *step) floor(dst []byte, lo int) []byte {
	negative, digits, exp := splitNumber(dst[lo:])
	shift := exp - s.exp // the number is digits times ten to the shift, in units of the step's last digit
	if len(digits)+shift > maxRounded {
		return dst
	}
	// Digits below the unit's last only matter by not being zero, which those of a negative canonical number are not.
	cut := max(0, min(-shift, len(digits)))
	var room [1 + maxUnit + maxRounded + len("e-40")]byte
	room[0] = '-'
	n := append(room[:1], "000000000000000000"...) // room for the sum
	n = append(n, digits[:len(digits)-cut]...)
	for ; shift > 0; shift-- {
		n = append(n, '0')
	}
	rest := uint64(0)
	for _, c := range n[1:] {
		rest = (rest*10 + uint64(c-'0')) % s.unit
	}
	switch {
	case !negative:
		subtract(n[1:], rest)
	case rest > 0 || cut > 0:
		add(n[1:], s.unit-rest)
	}
	n = appendExponent(n, s.exp)
	if !negative {
		n = n[1:]
	}
	// n is well within the limits of a number.
	dst, _ = appendNumber(dst[:lo], n)
	return dst
}

// add adds v to a decimal number that has room for the sum.
func add(digits []byte, v uint64) {
	for i := len(digits) - 1; v > 0; i-- {
		v += uint64(digits[i] - '0')
		digits[i] = byte('0' + v%10)
		v /= 10
	}
}

// subtract takes v from a decimal number that is not smaller.
func subtract(digits []byte, v uint64) {
	for i := len(digits) - 1; v > 0; i-- {
		have, take := digits[i]-'0', byte(v%10)
		v /= 10
		if have < take {
			have += 10
			v++
		}
		digits[i] = '0' + have - take
	}
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
