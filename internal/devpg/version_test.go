package devpg

import "testing"

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in, text string
		major    int
		old      bool
	}{
		{"15.18 (Debian 15.18-0+deb12u1)", "15.18", 15, false},
		{"postgres (PostgreSQL) 17.5\n", "17.5", 17, false},
		{"postgres (PostgreSQL) 14.1 (Ubuntu 14.1-2)", "14.1", 14, false},
		{"18beta1", "18beta1", 18, false},
		{"13.4", "13.4", 13, true},
		{"9.6.24", "9.6.24", 9, true},
	} {
		v, err := parseVersion(tt.in)
		if err != nil || v.text != tt.text || v.major != tt.major {
			t.Errorf("parseVersion(%q) = %+v, %v", tt.in, v, err)
		}
		if err := v.check(); (err != nil) != tt.old {
			t.Errorf("%s: check = %v", tt.in, err)
		}
	}
	for _, in := range []string{"", "postgres (PostgreSQL)", "devel"} {
		if v, err := parseVersion(in); err == nil {
			t.Errorf("parseVersion(%q) = %+v, want an error", in, v)
		}
	}
}
