//lint:file-ignore SA5008,U1000 odd tags and unseen fields are what is tested here

package canonjson

import (
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

type tagged struct {
	Memo    string            `json:"memo,omitempty" idem:"-"`
	Nonce   string            `idem:"-"`
	At      time.Time         `json:"at" idem:"round=1m"`
	Unix    *int64            `json:"unix" idem:"round=60"`
	Either  any               `json:"either" idem:"round=1h,round=3600"`
	Times   []*time.Time      `json:"times" idem:"round=1h"`
	Prices  map[string][]any  `json:"prices" idem:"round=0.01"`
	Amount  json.Number       `json:"amount" idem:"round=10"`
	Big     big.Int           `json:"big" idem:"round=10"`
	Raw     json.RawMessage   `json:"raw" idem:"round=10"`
	Lines   []taggedLine      `json:"lines"`
	ByName  map[string]**line `json:"by_name"`
	Grid    [2][]taggedLine   `json:"grid"`
	Tree    *taggedTree       `json:"tree"`
	Plain   string            `json:"plain"`
	Skipped string            `json:"-" idem:"-"`
	Dash    string            `json:"-," idem:"-"`
	Odd     string            `json:"a/b~c" idem:"-"`
	Star    string            `json:"*" idem:"-"`
	BadName string            `json:"quote\"" idem:"-"`
	taggedEmbedded
	*TaggedPointer
	WholeEmbedded `idem:"-"`
	Named         taggedLine `json:"named"`
	hidden        taggedLine //nolint:unused // not in the JSON
}

type (
	taggedLine struct {
		SKU, Note string
		Sub       struct {
			Note string `json:"note" idem:"-"`
		} `json:"sub"`
	}
	line struct {
		Note string `json:"note" idem:"-"`
	}
	taggedTree struct {
		Note     string       `json:"note" idem:"-"`
		Children []taggedTree `json:"children"`
		Self     *taggedTree  `json:"self"`
		ByName   map[string]taggedTree
	}
	taggedEmbedded struct {
		Trace string `json:"trace" idem:"-"`
		Kept  string `json:"kept"`
	}
	TaggedPointer struct {
		Seen time.Time `json:"seen" idem:"round=24h"`
	}
	WholeEmbedded struct{ X, Y string }
)

func mustRulesFor[T any](t *testing.T) *Rules {
	t.Helper()
	rules, err := RulesFor(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestRulesFor_K05_TagsSayWhatCounts(t *testing.T) {
	t.Parallel()
	rules := mustRulesFor[*tagged](t)
	for _, tt := range []struct{ raw, want string }{
		{`{"memo":"x","Nonce":"y","plain":"z","nonce":1}`, `{"nonce":1,"plain":"z"}`},
		{`{"at":"2026-11-29T12:30:59+01:00","unix":61}`, `{"at":"2026-11-29T11:30:00Z","unix":6e1}`},
		{`{"either":"2026-11-29T12:30:59Z"}`, `{"either":"2026-11-29T12:00:00Z"}`},
		{`{"either":3601}`, `{"either":36e2}`},
		{`{"times":["2026-11-29T12:30:59Z",null,"x"]}`, `{"times":["2026-11-29T12:00:00Z",null,"x"]}`},
		{`{"prices":{"a":[1.999,"1.999"],"b":[]}}`, `{"prices":{"a":[199e-2,"1.999"],"b":[]}}`},
		{`{"amount":19,"big":19,"raw":19}`, `{"amount":1e1,"big":1e1,"raw":1e1}`},
		{`{"lines":[{"SKU":"a","sub":{"note":1,"x":2}}],"named":{"sub":{"note":1}}}`, `{"lines":[{"SKU":"a","sub":{"x":2}}],"named":{"sub":{}}}`},
		{`{"by_name":{"k":{"note":1,"note2":2}}}`, `{"by_name":{"k":{"note2":2}}}`},
		{`{"grid":[[{"sub":{"note":1}}]]}`, `{"grid":[[{"sub":{}}]]}`},
		{
			`{"tree":{"note":1,"self":{"note":2,"x":3},"children":[{"note":4,"children":[{"note":5,"y":6}]}],"ByName":{"k":{"note":7}}}}`,
			`{"tree":{"ByName":{"k":{}},"children":[{"children":[{"y":6}]}],"self":{"x":3}}}`,
		},
		{`{"-":1,"a/b~c":2,"*":3,"BadName":4,"Skipped":5,"z":6}`, `{"Skipped":5,"z":6}`},
		{`{"trace":1,"kept":2,"seen":"2026-11-29T12:30:59Z","X":3,"Y":4}`, `{"kept":2,"seen":"2026-11-29T00:00:00Z"}`},
	} {
		if got := canonical(tt.raw, rules); got != tt.want {
			t.Errorf("%s is %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func TestRulesFor_K05_MergesWithPaths(t *testing.T) {
	t.Parallel()
	rules := Merge(mustRulesFor[tagged](t), mustCompile(t, Spec{Ignore: []string{"/plain"}, Round: map[string]Unit{"/at": "1h"}}))
	if got, want := canonical(`{"memo":1,"plain":2,"at":"2026-11-29T12:30:59Z","x":3}`, rules), `{"at":"2026-11-29T12:00:00Z","x":3}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

type (
	cyclicSlice   []cyclicSlice
	cyclicPointer *cyclicPointer
	untagged      struct {
		A int `json:"a"`
		B []untagged
		C cyclicSlice
		D cyclicPointer
	}
)

func TestRulesFor_K05_NoTagsIsNil(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{
		reflect.TypeFor[untagged](), reflect.TypeFor[map[string]any](), reflect.TypeFor[any](), reflect.TypeFor[int](), reflect.TypeFor[time.Time](),
		reflect.TypeFor[json.RawMessage](), reflect.TypeFor[cyclicSlice](), reflect.TypeFor[cyclicPointer](), reflect.TypeFor[struct{}](),
		reflect.TypeFor[struct {
			A int `idem:""`
		}](),
	} {
		if rules, err := RulesFor(typ); rules != nil || err != nil {
			t.Errorf("RulesFor(%v) = %v, %v, want nil, nil", typ, rules, err)
		}
	}
	if rules := mustRulesFor[[]line](t); canonical(`[{"note":1,"a":2}]`, rules) != `[{"a":2}]` {
		t.Error("tags below a slice do not count")
	}
}

type ownForm struct {
	Memo string `json:"memo" idem:"-"`
}

func (*ownForm) UnmarshalJSON([]byte) error { return nil }

type ownText struct{ In []map[string]*ownForm }

func (ownText) MarshalText() ([]byte, error) { return nil, nil }

type ownSlice []line

func (ownSlice) MarshalJSON() ([]byte, error) { return nil, nil }

func TestRulesFor_K05_ErrorsNameTheField(t *testing.T) {
	t.Parallel()
	for want, typ := range map[string]reflect.Type{
		".Memo (idem:\"ignore\")": reflect.TypeFor[struct {
			Memo string `idem:"ignore"`
		}](),
		".A (idem:\"-,\")": reflect.TypeFor[struct {
			A string `idem:"-,"`
		}](),
		".B (": reflect.TypeFor[struct {
			B string `idem:"round"`
		}](),
		".C (": reflect.TypeFor[struct {
			C string `idem:"round="`
		}](),
		".D (": reflect.TypeFor[struct {
			D string `idem:"round=1x"`
		}](),
		".E (": reflect.TypeFor[struct {
			E string `idem:"round=1m,-"`
		}](),
		".F (": reflect.TypeFor[struct {
			F any `idem:"round=1m,round=2m"`
		}](),
		".G (": reflect.TypeFor[struct {
			G any `idem:"round=1,round=2"`
		}](),
		".H (": reflect.TypeFor[struct {
			H int `idem:"round=1m"`
		}](),
		".I (": reflect.TypeFor[struct {
			I string `idem:"round=60"`
		}](),
		".J (": reflect.TypeFor[struct {
			J []struct{ X int } `idem:"round=60"`
		}](),
		".K (": reflect.TypeFor[struct {
			K int `json:",string" idem:"round=60"`
		}](),
		".L (": reflect.TypeFor[struct {
			L cyclicSlice `idem:"round=1m"`
		}](),
		".N (": reflect.TypeFor[struct {
			N json.Number `idem:"round=1m"`
		}](),
		".P (": reflect.TypeFor[struct {
			P bool `idem:"round=1"`
		}](),
		".O (": reflect.TypeFor[struct {
			In []map[string]*struct {
				O string `idem:"x"`
			}
		}](),
		".Q (": reflect.TypeFor[struct {
			Q string `json:"-" idem:"x"`
		}](),
		".r (": reflect.TypeFor[struct {
			r string `idem:"x"`
		}](),
		".S (": reflect.TypeFor[struct {
			S []byte `idem:"round=x"`
		}](),
		".WholeEmbedded (": reflect.TypeFor[struct {
			WholeEmbedded `idem:"round=1m"`
		}](),
		"ownForm.Memo (":         reflect.TypeFor[struct{ X []ownForm }](),
		"canonjson.ownForm.Memo": reflect.TypeFor[ownText](),
		"canonjson.line.Note":    reflect.TypeFor[struct{ X ownSlice }](),
		".T (": reflect.TypeFor[struct {
			T []byte `idem:"round=60"`
		}](),
		"RulesFor needs a type": nil,
	} {
		rules, err := RulesFor(typ)
		if !errors.Is(err, ErrBadRule) || rules != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("RulesFor(%v) = %v, %v, want ErrBadRule with %s", typ, rules, err, want)
		}
	}
}
