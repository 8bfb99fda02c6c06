//lint:file-ignore SA5008,U1000 odd tags and unseen fields are what is tested here

package canonjson

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Types whose member names depend on the rules of encoding/json for tags and embedded structs.
type (
	zoo struct {
		A, b  int
		C     int `json:"c,omitempty"`
		D     int `json:",omitzero"`
		E     int `json:"-"`
		F     int `json:"-,"`
		G     int `json:"ü/ x"`
		H     int `json:"a\"b"`
		I     int `json:"a,b"`
		J     int `json:"J,string"`
		Iface any
	}
	Base struct {
		ID, Name string
		Deep
	}
	Deep struct {
		ID    string `json:"deep_id"`
		Level int
	}
	Left struct {
		Clash string
		Only  int
		Twice
	}
	Right struct {
		Clash string
		Mine  int
		Twice
	}
	Twice  struct{ Lost int }
	Winner struct {
		Clash string `json:"Clash"`
	}
	private struct{ Seen, unseen int }
	Scalar  int
	scalar  int
	Loop    struct {
		*Loop
		Z int
	}

	embeds1 struct{ Base }
	embeds2 struct{ *Base }
	embeds3 struct {
		Base
		ID int
	}
	embeds4 struct {
		Base `json:"base"`
	}
	embeds5 struct {
		Left
		Right
	}
	embeds6 struct {
		Left
		Right
		Winner
	}
	embeds7 struct {
		Left
		Winner
		Clash int
	}
	embeds8 struct{ private }
	embeds9 struct{ *private }
	embedsA struct {
		Scalar
		scalar
	}
	embedsB struct{ *Scalar }
	embedsC struct {
		Scalar `json:"s"`
	}
	embedsD struct {
		Loop
		Z int
	}
	embedsE struct {
		private `json:"p"`
	}
	embedsF struct {
		Base `json:"-"`
		X    int
	}
	embedsG struct {
		Base `json:"bad\"name"`
	}
	embedsH struct {
		Deep
		Base
	}
	embedsI struct {
		A int `json:"B"`
		B int
	}
)

func TestRulesFor_K05_NamesAreThoseOfEncodingJSON(t *testing.T) {
	t.Parallel()
	same := reflect.StructOf([]reflect.StructField{ // go vet refuses this one as source
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"same"`},
		{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"same"`},
		{Name: "C", Type: reflect.TypeFor[int]()},
	})
	for _, v := range []any{
		reflect.Zero(same).Interface(),
		zoo{C: 1, D: 1},
		Base{},
		Loop{},
		embeds1{},
		embeds2{&Base{}},
		embeds3{},
		embeds4{},
		embeds5{},
		embeds6{},
		embeds7{},
		embeds8{},
		embeds9{&private{}},
		embedsA{},
		embedsB{},
		embedsC{},
		embedsD{},
		embedsE{},
		embedsF{},
		embedsG{},
		embedsH{},
		embedsI{},
	} {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(out, &members); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, f := range jsonFields(reflect.TypeOf(v)) {
			got = append(got, f.name)
		}
		slices.Sort(got)
		want := slices.AppendSeq([]string{}, maps.Keys(members))
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T: names differ from encoding/json (-want +got):\n%s", v, diff)
		}
	}
}
