package txidem

import (
	"fmt"
	"reflect"
	"time"

	"github.com/txonce/txonce/internal/canonjson"
)

// Rules say which arguments count when two calls are compared (K05). Nil Rules let everything count. They are made
// once per tool by [NewRules] and may be shared.
type Rules struct{ canon *canonjson.Rules }

// RuleSpec is what rules are made from. Paths are JSON Pointers (RFC 6901) in which an asterisk stands for any member
// or element: "/lines/*/memo".
type RuleSpec struct {
	// Args is the type of the arguments, for its struct tags: `idem:"-"` ignores a field, such as a memo that the model
	// words anew, `idem:"round=1m"` rounds a timestamp down, `idem:"round=0.01"` a number. Defaults to none.
	Args reflect.Type

	// Ignore are paths of arguments that do not count. Defaults to none.
	Ignore []string

	// RoundTime are paths of RFC 3339 timestamps that count only up to a unit, down. Defaults to none.
	RoundTime map[string]time.Duration

	// RoundNumber are paths of numbers that count only up to a multiple of a unit, such as "0.01", down. Defaults to none.
	RoundNumber map[string]string
}

// NewRules checks and compiles the spec. Its errors name the field or the path. An empty spec gives nil.
func NewRules(spec RuleSpec) (*Rules, error) {
	var tags *canonjson.Rules
	if spec.Args != nil {
		var err error
		if tags, err = canonjson.RulesFor(spec.Args); err != nil {
			return nil, fmt.Errorf("txidem: %w", err)
		}
	}
	round := make(map[string]canonjson.Unit, len(spec.RoundTime)+len(spec.RoundNumber))
	for path, unit := range spec.RoundNumber {
		round[path] = canonjson.Unit(unit)
	}
	for path, unit := range spec.RoundTime {
		if _, both := round[path]; both {
			return nil, fmt.Errorf("txidem: path %q is in both RoundTime and RoundNumber; a value is one or the other", path)
		}
		round[path] = canonjson.Unit(unit.String())
	}
	paths, err := canonjson.Compile(canonjson.Spec{Ignore: spec.Ignore, Round: round})
	if err != nil {
		return nil, fmt.Errorf("txidem: %w", err)
	}
	if merged := canonjson.Merge(tags, paths); merged != nil {
		return &Rules{canon: merged}, nil
	}
	return nil, nil
}

func (r *Rules) compiled() *canonjson.Rules {
	if r == nil {
		return nil
	}
	return r.canon
}
