package devpg

import (
	"fmt"
	"strconv"
	"strings"
)

// minMajor is the oldest PostgreSQL that txonce supports.
const minMajor = 14

// serverVersion is a version as PostgreSQL states it.
type serverVersion struct {
	text  string // "15.18", "18beta1"
	major int
}

// parseVersion reads the parameter server_version ("15.18 (Debian 15.18-0)")
// or the output of postgres --version ("postgres (PostgreSQL) 15.18").
func parseVersion(s string) (serverVersion, error) {
	_, after, found := strings.Cut(s, "(PostgreSQL)")
	if !found {
		after = s
	}
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return serverVersion{}, fmt.Errorf("no version in %q", s)
	}
	digits := fields[0]
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	major, err := strconv.Atoi(digits)
	if err != nil {
		return serverVersion{}, fmt.Errorf("no version in %q", s)
	}
	return serverVersion{text: fields[0], major: major}, nil
}

// check returns an error without prefix if v is too old.
func (v serverVersion) check() error {
	if v.major < minMajor {
		return fmt.Errorf("PostgreSQL %d or newer is needed, but this is PostgreSQL %s", minMajor, v.text)
	}
	return nil
}
