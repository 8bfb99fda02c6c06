package toolcall_test

import (
	"encoding/json"
	"testing"

	"github.com/txonce/txonce/toolcall"
)

// TestID_K01_IsFrozen: records outlive an upgrade, and so must the way to their ids.
func TestID_K01_IsFrozen(t *testing.T) {
	t.Parallel()
	const want = "c2c710b0-b823-89ed-9cf8-53c724bc1293"
	if got := toolcall.NewID("alice", "issue_refund", "x:no more").String(); got != want {
		t.Errorf("got %s, want %s: the ids of all records have changed", got, want)
	}
}

func TestID_K06_PartsCannotBeCrafted(t *testing.T) {
	t.Parallel()
	seen := map[toolcall.ID][3]string{}
	for _, parts := range [][3]string{
		{"a", "b", "c"}, {"ab", "", "c"}, {"", "ab", "c"}, {"a", "bc", ""}, {"a\x00b", "", "c"}, {"", "", "abc"}, {"abc", "", ""}, {"c", "b", "a"},
	} {
		id := toolcall.NewID(parts[0], parts[1], parts[2])
		if other, taken := seen[id]; taken {
			t.Errorf("%q and %q are one call", parts, other)
		}
		seen[id] = parts
		if s := id.String(); s[14] != '8' || (s[19] != '8' && s[19] != '9' && s[19] != 'a' && s[19] != 'b') {
			t.Errorf("%s is no UUID of version 8", s)
		}
	}
}

func TestID_TextGoesThereAndBack(t *testing.T) {
	t.Parallel()
	id := toolcall.NewID("a", "b", "c")
	text, err := json.Marshal(map[string]toolcall.ID{"id": id})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]toolcall.ID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != id || id.IsZero() {
		t.Errorf("%s became %v (%v)", text, back, err)
	}
	for _, bad := range []string{"", "abc", id.String()[1:], id.String() + "0", "g" + id.String()[1:], "00000000_0000-0000-0000-000000000000"} {
		if got, err := toolcall.ParseID(bad); err == nil || !got.IsZero() {
			t.Errorf("%q: got %v, %v", bad, got, err)
		}
	}
}

func TestFailure_SaysWhatItHas(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]*toolcall.Failure{
		"code: text": {Code: "code", Message: "text"}, "text": {Message: "text"}, "<nil>": nil,
	} {
		if got := f.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
