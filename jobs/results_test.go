package jobs

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResults_S01_TypesByKind(t *testing.T) {
	t.Parallel()
	number := Define("number", func(context.Context, *Job[in]) (Commit[int], error) { return nil, nil }, nil)
	f := setup(t, nil, plainly("plain", nil), number)
	got := make(map[string]string)
	for kind, typ := range f.Results() {
		got[kind] = typ.String()
	}
	if diff := cmp.Diff(map[string]string{"plain": reflect.TypeFor[out]().String(), "number": "int"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
