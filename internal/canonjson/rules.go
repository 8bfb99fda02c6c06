package canonjson

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Spec says by path which parts of the arguments do not count (K05). The syntax of paths is in the package
// documentation.
type Spec struct {
	// Ignore lists members, or elements, that are left out entirely. Defaults to none.
	Ignore []string
	// Round lists values that count only up to a unit. Defaults to none.
	Round map[string]Unit
}

// Unit is what a value is rounded down to: a duration as read by time.ParseDuration ("1m", "24h"), which applies to
// strings that are RFC 3339 timestamps and counts from the year 1 in UTC, or a positive decimal ("60", "0.01"), which
// applies to numbers and counts from 0. Down is toward the past and toward minus infinity. A value of another kind, a
// timestamp with a lower-case t or z or with second 60, and a number with more than 40 digits from the unit's last one
// upward count as they are.
type Unit string

// Rules is a compiled choice of what counts. Nil rules let everything count. Rules are immutable and may be shared.
type Rules struct {
	roots []*edge
}

// Compile checks a Spec. Its error matches ErrBadRule and names the path. An empty Spec gives nil.
func Compile(spec Spec) (*Rules, error) {
	root := new(node)
	for _, path := range spec.Ignore {
		e, err := root.reach(path)
		if err != nil {
			return nil, badRule(path, err)
		}
		e.ignore = true
	}
	for _, path := range slices.Sorted(maps.Keys(spec.Round)) {
		e, err := root.reach(path)
		if err == nil {
			err = e.action.round(spec.Round[path])
		}
		if err != nil {
			return nil, badRule(path, err)
		}
	}
	if len(spec.Ignore)+len(spec.Round) == 0 {
		return nil, nil
	}
	return &Rules{roots: []*edge{{to: root}}}, nil
}

// Merge returns rules under which everything is ignored that any of the given rules ignores. Where several round the
// same value, the last one's unit is taken; within one Spec, the unit of the path whose first differing token is a
// name, not an asterisk.
func Merge(rules ...*Rules) *Rules {
	merged := new(Rules)
	for _, r := range slices.Backward(rules) {
		if r != nil {
			merged.roots = append(merged.roots, r.roots...)
		}
	}
	if len(merged.roots) == 0 {
		return nil
	}
	return merged
}

func badRule(path string, err error) error {
	return fmt.Errorf("%w for path %q: %v", ErrBadRule, path, err)
}

// node is a state of the rules on their way down a document, and edge leads to it. The action belongs to the edge: two
// struct fields of one type share the node but not the tag.
type node struct {
	named map[string]*edge
	any   *edge
}

type edge struct {
	to *node // nil where no rule goes deeper
	action
}

// action is what happens to a value.
type action struct {
	ignore bool
	every  time.Duration // zero leaves timestamps alone
	step   *step         // nil leaves numbers alone
}

// reach returns the edge that the path ends on, building what is missing.
func (n *node) reach(path string) (*edge, error) {
	tokens, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	var e *edge
	for _, tok := range tokens {
		if e != nil {
			e.to = cmp.Or(e.to, new(node))
			n = e.to
		}
		if tok.any {
			n.any = cmp.Or(n.any, new(edge))
			e = n.any
			continue
		}
		if n.named == nil {
			n.named = make(map[string]*edge)
		}
		n.named[tok.name] = cmp.Or(n.named[tok.name], new(edge))
		e = n.named[tok.name]
	}
	return e, nil
}

// round adds a unit to the action.
func (a *action) round(unit Unit) error {
	text := string(unit)
	switch {
	case a.ignore:
		return errors.New("it is ignored as well as rounded: choose one")
	case isNumber(text):
		if a.step != nil {
			return errors.New("it is rounded to two numbers: choose one")
		}
		step, err := newStep(text)
		a.step = step
		return err
	}
	every, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither a duration such as 1m nor a number such as 60", text)
	case every <= 0:
		return fmt.Errorf("%q must be positive", text)
	case a.every > 0:
		return errors.New("it is rounded to two durations: choose one")
	}
	a.every = every
	return nil
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	canon, err := parse(nil, []byte(text))
	return err == nil && len(canon) == len(text) && strings.ContainsRune("-0123456789", rune(text[0]))
}

// follow returns the rules that go on below a member called name, or an element of that index. They are put on top of
// the active ones; the caller takes them off.
func (w *walker) follow(at span, name []byte) span {
	if at == (span{}) {
		return at
	}
	next := span{lo: len(w.active)}
	for _, e := range w.active[at.lo:at.hi] {
		if e.to == nil {
			continue
		}
		if child := e.to.named[string(name)]; child != nil {
			w.active = append(w.active, child)
		}
		if e.to.any != nil {
			w.active = append(w.active, e.to.any)
		}
	}
	next.hi = len(w.active)
	return next
}
