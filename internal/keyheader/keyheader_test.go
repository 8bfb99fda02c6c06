package keyheader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/txonce/txonce/internal/keyheader"
)

func TestParse_H01_QuotedAndBareAreOneKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   string
		err    error
	}{
		{nil, "", nil},
		{[]string{`8e03978e-40d5-43dd-bc93-6894a57f9324`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", nil},
		{[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", nil},
		{[]string{` "a" `}, "a", nil},
		{[]string{`"a";v=1;w`}, "a", nil},
		{[]string{`a;v=1`}, "a;v=1", nil}, // a bare value has no parameters
		{[]string{`"say \"hi\" \\ bye"`}, `say "hi" \ bye`, nil},
		{[]string{`say "hi"`}, `say "hi"`, nil},
		{[]string{`a, b`}, "a, b", nil},
		{[]string{`naïve`}, "naïve", nil},
		{[]string{"a", "a"}, "", keyheader.ErrSeveral},
		{[]string{""}, "", keyheader.ErrEmpty},
		{[]string{" \t "}, "", keyheader.ErrEmpty},
		{[]string{`""`}, "", keyheader.ErrEmpty},
		{[]string{`"a`}, "", keyheader.ErrMalformed},
		{[]string{`"`}, "", keyheader.ErrMalformed},
		{[]string{`"a" b`}, "", keyheader.ErrMalformed},
		{[]string{`"a", "b"`}, "", keyheader.ErrMalformed}, // two headers that something on the way made one
		{[]string{`"a\b"`}, "", keyheader.ErrMalformed},
		{[]string{`"a";`}, "", keyheader.ErrMalformed},
		{[]string{`"naïve"`}, "", keyheader.ErrMalformed}, // a string of a structured field is ASCII
		{[]string{"\"a\tb\""}, "", keyheader.ErrMalformed},
	} {
		if got, err := keyheader.Parse(c.values); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: got %q, %v; want %q, %v", c.values, got, err, c.want, c.err)
		}
	}
}

// FuzzParse: a key is what it was when a library wrote it, bare or quoted, and nothing else becomes a key.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a", `"a"`, `"a\"b";v=1`, `"a`, `\`, " ", `"";`, "\x00", "\xff", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := keyheader.Parse([]string{text})
		if (err == nil) == (got == "") {
			t.Fatalf("%q: key %q with error %v", text, got, err)
		}
		trimmed := strings.Trim(text, " \t")
		if bare := trimmed != "" && trimmed[0] != '"'; bare && got != trimmed {
			t.Fatalf("%q: a bare key became %q", text, got)
		}
		quoted, err := httpsfv.Marshal(httpsfv.NewItem(text))
		if err != nil || text == "" { // it cannot be written as a string
			return
		}
		if got, err := keyheader.Parse([]string{quoted}); got != text || err != nil {
			t.Fatalf("%s: got %q, %v; want %q", quoted, got, err, text)
		}
	})
}
