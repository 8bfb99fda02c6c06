package canonjson

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"
)

var canonicalNumber = regexp.MustCompile(`^(0|-?[1-9]([0-9]*[1-9])?(e-?[1-9][0-9]*)?)$`)

func TestNumber_K04_AgreesWithDecimalLibraries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, n := genNumber(t), genNumber(t)
		if rapid.Bool().Draw(t, "the same") {
			*n = *m
		}
		a, b := m.spell(t), n.spell(t)
		x, errX := appendNumber([]byte("kept"), []byte(a))
		y, errY := appendNumber([]byte("kept"), []byte(b))
		if errX != nil || errY != nil || !strings.HasPrefix(string(x), "kept") {
			t.Fatalf("%s is %s, %v; %s is %s, %v", a, x, errX, b, y, errY)
		}
		if !canonicalNumber.Match(x[4:]) {
			t.Fatalf("%s is %s, which is not canonical", a, x[4:])
		}
		if same := string(x) == string(y); same != sameNumber(a, b) || same != (rat(t, a).Cmp(rat(t, b)) == 0) {
			t.Fatalf("%s is %s and %s is %s: apd says same %v, math/big %v", a, x, b, y, sameNumber(a, b), rat(t, a).Cmp(rat(t, b)) == 0)
		}
		if rat(t, a).Cmp(rat(t, string(x[4:]))) != 0 || !sameNumber(a, string(x[4:])) {
			t.Fatalf("%s became another number, %s", a, x[4:])
		}
	})
}

func TestRules_K05_RoundingAgreesWithMathBig(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, unit := genNumber(t), genNumber(t)
		unit.negative, unit.exp = false, rapid.IntRange(-10, 10).Draw(t, "unit exponent")
		unit.digits = rapid.StringMatching(`[1-9]|[1-9][0-9]{0,16}[1-9]`).Draw(t, "unit")
		n.exp = rapid.IntRange(-60, 40).Draw(t, "number exponent")
		text := unit.spell(t)
		s, err := newStep(text)
		if err != nil {
			t.Fatal(err)
		}
		in, err := appendNumber(nil, []byte(n.spell(t)))
		if err != nil {
			t.Fatal(err)
		}
		out := string(s.floor(append([]byte("kept"), in...), 4)[4:])
		if len(n.digits)+n.exp-s.exp > maxRounded {
			if n.digits != "" && out != string(in) {
				t.Fatalf("%s is too long to be rounded to %s but became %s", in, text, out)
			}
			return
		}
		quotient := new(big.Rat).Quo(rat(t, string(in)), rat(t, text))
		floor := new(big.Int).Div(quotient.Num(), quotient.Denom()) // Euclidean, and the denominator is positive: floor
		want := new(big.Rat).Mul(new(big.Rat).SetInt(floor), rat(t, text))
		if !canonicalNumber.MatchString(out) || rat(t, out).Cmp(want) != 0 {
			t.Fatalf("%s rounded down to %s is %s, want %s", in, text, out, want.RatString())
		}
	})
}

func rat(t interface{ Fatalf(string, ...any) }, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("math/big does not read %s", text)
	}
	return r
}

// FuzzNumber holds the spelling of numbers to math/big, and to apd where math/big would expand too much.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0.0", "1", "1.0", "10e-1", "1e400", "-1.50", "123456789012345678901234567890.12", "9007199254740993", "1e9999", "1e-9999", "0.0001e4"} {
		f.Add(seed, "1")
		f.Add(seed, seed+"0")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !isNumber(a) || !isNumber(b) || len(a) > 2000 || len(b) > 2000 {
			return
		}
		x, errX := appendNumber(nil, []byte(a))
		y, errY := appendNumber(nil, []byte(b))
		if errX == nil && !canonicalNumber.Match(x) {
			t.Fatalf("%s is %s, which is not canonical", a, x)
		}
		if errX != nil || errY != nil {
			return
		}
		if !sameNumber(a, string(x)) && apdReads(a) {
			t.Fatalf("%s became another number, %s", a, x)
		}
		if apdReads(a) && apdReads(b) && (string(x) == string(y)) != sameNumber(a, b) {
			t.Fatalf("%s is %s and %s is %s", a, x, b, y)
		}
		if smallExponent(a) && smallExponent(b) {
			if rat(t, a).Cmp(rat(t, string(x))) != 0 {
				t.Fatalf("%s became another number, %s", a, x)
			}
			if (string(x) == string(y)) != (rat(t, a).Cmp(rat(t, b)) == 0) {
				t.Fatalf("%s is %s and %s is %s", a, x, b, y)
			}
		}
	})
}

// apdReads reports whether the exponent is within apd's own limits.
func apdReads(text string) bool {
	_, _, err := new(apd.Decimal).SetString(text)
	return err == nil
}

func smallExponent(text string) bool {
	i := strings.IndexAny(text, "eE")
	return i < 0 || len(strings.TrimLeft(text[i+1:], "+-0")) <= 3
}
