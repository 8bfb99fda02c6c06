package canonjson

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

// typicalCall is 315 bytes of arguments as a model writes them: unsorted, nested, money, an instant.
const typicalCall = `{"order_id":"ord_8f14e45fceea167a","customer":{"id":10482,"email":"ada.lovelace@example.com","tier":"gold"},` +
	`"lines":[{"sku":"AB-1001","qty":2,"price":"19.99"},{"sku":"ZX-77","qty":1,"price":"5.00"}],"amount":44.98,` +
	`"currency":"EUR","reason":"damaged in transit","notify":true,"memo":null,"at":"2026-11-29T12:30:00Z"}`

type typicalArgs struct {
	Memo  *string   `json:"memo" idem:"-"`
	At    time.Time `json:"at" idem:"round=1m"`
	Lines []struct {
		Price string `json:"price" idem:"-"`
	} `json:"lines"`
}

func BenchmarkSum(b *testing.B) {
	rules, err := RulesFor(reflect.TypeFor[typicalArgs]())
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name  string
		raw   []byte
		rules *Rules
	}{
		{"typical", []byte(typicalCall), nil},
		{"typical with rules", []byte(typicalCall), rules},
		{"4 MiB", bytes.Join([][]byte{[]byte("["), bytes.Repeat([]byte(typicalCall+","), MaxSize/320), []byte("0]")}, nil), nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Sum(Version, bench.raw, bench.rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFields(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Fields([]byte(typicalCall), nil, []byte("0123456789abcdef")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	stored, err := Fields([]byte(typicalCall), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Diff(stored, []byte(typicalCall), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTakeString(b *testing.B) {
	raw := []byte(`{"idempotency_key":"k-1",` + typicalCall[1:])
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := TakeString(raw, "idempotency_key"); err != nil {
			b.Fatal(err)
		}
	}
}
