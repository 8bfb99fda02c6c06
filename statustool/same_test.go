package statustool

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// TestSame_S03_EachFieldCounts, also one that a status does not have yet.
func TestSame_S03_EachFieldCounts(t *testing.T) {
	t.Parallel()
	sample := func() finding {
		return finding{status: toolcall.Status{
			Answer: []byte("1"), Failure: &toolcall.Failure{Code: "no"}, Job: &toolcall.JobStatus{Progress: &toolcall.Progress{Fraction: 0.5}},
		}}
	}
	if !same(sample(), sample()) {
		t.Error("equal findings differ")
	}
	parts := map[string]func(*finding) any{
		"Status":    func(f *finding) any { return &f.status },
		"Failure":   func(f *finding) any { return f.status.Failure },
		"JobStatus": func(f *finding) any { return f.status.Job },
		"Progress":  func(f *finding) any { return f.status.Job.Progress },
	}
	first := sample()
	for name, part := range parts {
		fields := reflect.TypeOf(part(&first)).Elem()
		for i := range fields.NumField() {
			changed := sample()
			change(t, reflect.ValueOf(part(&changed)).Elem().Field(i))
			if same(sample(), changed) || same(changed, sample()) {
				t.Errorf("%s.%s does not count", name, fields.Field(i).Name)
			}
		}
	}
	failed, alone := sample(), sample()
	failed.err, alone.alone = errors.New("no"), true
	if same(sample(), failed) || same(sample(), alone) {
		t.Error("an error does not count")
	}
}

// change makes another value of it.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	if at, isTime := v.Addr().Interface().(*time.Time); isTime {
		*at = time.UnixMicro(1)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() + 1)
	case reflect.Slice, reflect.Pointer:
		v.SetZero()
	default:
		t.Fatalf("a field is a %s: say how it changes", v.Kind())
	}
}
