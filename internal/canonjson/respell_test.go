package canonjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"
)

// value is a JSON value whose equality is plain to see: a literal, a string, a number, an array or an object.
type value struct {
	literal string // null, true, false
	str     *string
	num     *number
	arr     []value
	obj     []property // distinct names
	kind    byte
}

type property struct {
	name string
	value
}

// number is digits times ten to the exp. Digits neither begin nor end with zero.
type number struct {
	negative bool
	digits   string
	exp      int
}

func genValue(t *rapid.T, depth int) value {
	kinds := "lsn"
	if depth > 0 {
		kinds = "lsnaaooo"
	}
	v := value{kind: rapid.SampledFrom([]byte(kinds)).Draw(t, "kind")}
	switch v.kind {
	case 'l':
		v.literal = rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case 's':
		s := genString(t)
		v.str = &s
	case 'n':
		v.num = genNumber(t)
	case 'a':
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			v.arr = append(v.arr, genValue(t, depth-1))
		}
	case 'o':
		names := rapid.SliceOfNDistinct(rapid.Custom(genString), 0, 5, rapid.ID).Draw(t, "names")
		for _, name := range names {
			v.obj = append(v.obj, property{name, genValue(t, depth-1)})
		}
	}
	return v
}

func genString(t *rapid.T) string {
	r := rapid.SampledFrom([]rune("abAB/\\\"\b\f\n\r\t\x00\x1f\x7f <>&é\u0301\u2028\ufffd\uffee\U0001f600"))
	return rapid.StringOfN(r, 0, 10, -1).Draw(t, "string")
}

func genNumber(t *rapid.T) *number {
	return &number{
		negative: rapid.Bool().Draw(t, "negative"),
		digits:   rapid.StringMatching(`|[1-9]|[1-9][0-9]{0,30}[1-9]`).Draw(t, "digits"), // none is zero
		exp:      rapid.IntRange(-400, 400).Draw(t, "exp"),
	}
}

// spell writes v in one of its many spellings.
func (v value) spell(t *rapid.T, b *strings.Builder) {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "})
	pad := func() { b.WriteString(space.Draw(t, "space")) }
	pad()
	switch v.kind {
	case 'l':
		b.WriteString(v.literal)
	case 's':
		spellString(t, b, *v.str)
	case 'n':
		b.WriteString(v.num.spell(t))
	case 'a':
		b.WriteByte('[')
		for i, e := range v.arr {
			if i > 0 {
				b.WriteByte(',')
			}
			e.spell(t, b)
		}
		pad()
		b.WriteByte(']')
	case 'o':
		b.WriteByte('{')
		order := rapid.Permutation(slices.Clone(v.obj)).Draw(t, "order")
		for i, m := range order {
			if i > 0 {
				b.WriteByte(',')
			}
			pad()
			spellString(t, b, m.name)
			pad()
			b.WriteByte(':')
			m.value.spell(t, b)
		}
		pad()
		b.WriteByte('}')
	}
	pad()
}

func spellString(t *rapid.T, b *strings.Builder, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	b.WriteByte('"')
	for _, r := range s {
		format := rapid.SampledFrom([]string{"raw", "raw", `\u%04x`, `\u%04X`, "short"}).Draw(t, "escape")
		switch {
		case format == "short" && short[r] != "":
			b.WriteString(short[r])
		case (format == "raw" || format == "short") && r >= ' ' && r != '"' && r != '\\':
			b.WriteRune(r)
		default:
			if format[0] != '\\' {
				format = `\u%04x`
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, format, unit)
			}
		}
	}
	b.WriteByte('"')
}

// spell moves the decimal point and the exponent against each other, and adds zeros and signs that mean nothing.
func (n *number) spell(t *rapid.T) string {
	digits, exp := n.digits, n.exp
	zeros := rapid.IntRange(0, 3).Draw(t, "zeros behind")
	digits, exp = digits+strings.Repeat("0", zeros), exp-zeros
	ahead := rapid.IntRange(0, 3).Draw(t, "zeros ahead")
	digits = strings.Repeat("0", ahead) + digits
	point := rapid.IntRange(0, len(digits)).Draw(t, "point")
	whole, fraction := strings.TrimLeft(digits[:point], "0"), digits[point:]
	exp += len(fraction)
	if whole == "" {
		whole = "0"
	}
	s := whole
	if fraction != "" {
		s += "." + fraction
	}
	if n.negative {
		s = "-" + s
	}
	if exp == 0 && rapid.Bool().Draw(t, "no exponent") {
		return s
	}
	sign := ""
	if exp >= 0 {
		sign = rapid.SampledFrom([]string{"", "+"}).Draw(t, "sign")
	} else {
		sign, exp = "-", -exp
	}
	e := rapid.SampledFrom([]string{"e", "E", "e"}).Draw(t, "e")
	return s + e + sign + strings.Repeat("0", rapid.IntRange(0, 2).Draw(t, "exponent zeros")) + fmt.Sprint(exp)
}

func spelled(t *rapid.T, v value) []byte {
	var b strings.Builder
	v.spell(t, &b)
	return []byte(b.String())
}

func mustCanonical(t *rapid.T, raw []byte) []byte {
	canon, err := Canonical(Version, raw, nil)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return canon
}

func TestSum_K04_EverySpellingOfAValueIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(t, 3)
		one, two := spelled(t, v), spelled(t, v)
		a, b := mustCanonical(t, one), mustCanonical(t, two)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s is %s but %s is %s", one, a, two, b)
		}
		if again := mustCanonical(t, a); !bytes.Equal(again, a) {
			t.Fatalf("%s is not its own canonical form: %s", a, again)
		}
		if !sameValue(decode(one), decode(a)) {
			t.Fatalf("%s became another value: %s", one, a)
		}
	})
}

func TestSum_K04_EveryChangeOfAValueShows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(t, 3)
		changed, path := mutate(t, v, nil)
		one, two := spelled(t, v), spelled(t, changed)
		if a, b := mustCanonical(t, one), mustCanonical(t, two); bytes.Equal(a, b) {
			t.Fatalf("%s and %s are both %s", one, two, a)
		}
		// K07: the change is named by its own path, or by one above it where the outline is coarser.
		stored, err := Fields(one, nil, testSalt)
		if err != nil {
			t.Fatal(err)
		}
		paths, err := Diff(stored, two, nil, testSalt)
		if err != nil || len(paths) == 0 {
			t.Fatalf("from %s to %s: %q, %v", one, two, paths, err)
		}
		for _, p := range paths {
			if p != string(path) && !strings.HasPrefix(p, string(path)+"/") && !strings.HasPrefix(string(path), p+"/") {
				t.Fatalf("from %s to %s, at %q: Diff says %q", one, two, path, paths)
			}
		}
	})
}

// mutate changes one thing about v, and returns the path of the value that it changed.
func mutate(t *rapid.T, v value, path []byte) (value, []byte) {
	deeper := rapid.Bool().Draw(t, "deeper")
	switch {
	case v.kind == 'a' && len(v.arr) > 0 && deeper:
		i := rapid.IntRange(0, len(v.arr)-1).Draw(t, "element")
		v.arr = slices.Clone(v.arr)
		v.arr[i], path = mutate(t, v.arr[i], appendToken(path, fmt.Append(nil, i)))
		return v, path
	case v.kind == 'o' && len(v.obj) > 0 && deeper:
		i := rapid.IntRange(0, len(v.obj)-1).Draw(t, "member")
		v.obj = slices.Clone(v.obj)
		v.obj[i].value, path = mutate(t, v.obj[i].value, appendToken(path, []byte(v.obj[i].name)))
		return v, path
	case v.kind == 'a' && len(v.arr) > 0 && rapid.Bool().Draw(t, "remove"):
		i := rapid.IntRange(0, len(v.arr)-1).Draw(t, "element")
		v.arr = slices.Delete(slices.Clone(v.arr), i, i+1)
	case v.kind == 'a':
		v.arr = append(slices.Clone(v.arr), genValue(t, 1))
	case v.kind == 'o' && len(v.obj) > 0 && rapid.Bool().Draw(t, "remove"):
		i := rapid.IntRange(0, len(v.obj)-1).Draw(t, "member")
		v.obj = slices.Delete(slices.Clone(v.obj), i, i+1)
	case v.kind == 'o':
		v.obj = append(slices.Clone(v.obj), property{"a longer name than any", genValue(t, 1)})
	case v.kind == 's':
		s := *v.str + rapid.SampledFrom([]string{"x", "\u0301", "\x00", " "}).Draw(t, "more")
		v.str = &s
	case v.kind == 'n' && v.num.digits != "":
		n := *v.num
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			n.negative = !n.negative
		case 1:
			n.exp++
		default:
			n.digits += "1" // one more digit behind all others
			n.exp--
		}
		v.num = &n
	default:
		v = value{kind: 's', str: new(string)}
		*v.str = "another kind of value"
	}
	return v, path
}

// decode and sameValue judge by another decoder and exact decimals.
func decode(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return fmt.Errorf("encoding/json refuses it")
	}
	return v
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if other, ok := b[name]; !ok || !sameValue(a[name], other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	default:
		return a == b
	}
}

// sameNumber compares by apd, whose Reduce brings every finite decimal to one form.
func sameNumber(a, b string) bool {
	if isZero(a) || isZero(b) { // apd refuses to read zero with a huge exponent
		return isZero(a) && isZero(b)
	}
	var x, y apd.Decimal
	if _, _, err := x.SetString(a); err != nil {
		return false
	}
	if _, _, err := y.SetString(b); err != nil {
		return false
	}
	x.Reduce(&x)
	y.Reduce(&y)
	return x.Negative == y.Negative && x.Exponent == y.Exponent && x.Coeff.Cmp(&y.Coeff) == 0
}

func isZero(text string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	return strings.Trim(mantissa, "-0.") == ""
}
