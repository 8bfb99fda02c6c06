package lives

import (
	"bytes"
	"testing"
)

func TestProgress_OneLineForEachTenth(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := NewProgress(&out, "crash", 40)
	for _, n := range []int{1, 2, 3, 5, 4, 6, 40} {
		p.At(n)
	}
	p.End()
	if want := "crash: 5 of 40 kills\ncrash: 40 of 40 kills\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
