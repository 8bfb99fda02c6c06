package main

import "fmt"

// way is one way to execute. mode is "" for pgx's default.
type way struct{ pooler, mode string }

var modes = [...]string{"exec", "cache_describe", "simple_protocol"}

func (w way) String() string {
	if w.pooler == "" {
		return "directly, " + w.modeName()
	}
	return "through " + w.pooler + ", " + w.modeName()
}

// modeName is how tests call the mode.
func (w way) modeName() string {
	if w.mode == "" {
		return "cache_statement"
	}
	return w.mode
}

// allWays lists all of them.
func allWays() []way {
	all := []way{{}}
	for _, pooler := range []string{"", "pgbouncer"} {
		for _, mode := range modes {
			all = append(all, way{pooler, mode})
		}
	}
	return all
}

// name is how the flag calls it.
func (w way) name() string {
	switch {
	case w.pooler != "":
		return w.pooler + "/" + w.mode
	case w.mode == "":
		return "default"
	}
	return w.mode
}

func parseWay(name string) (way, error) {
	for _, w := range allWays() {
		if w.name() == name {
			return w, nil
		}
	}
	return way{}, fmt.Errorf("there is no way %q; use default, exec, cache_describe or simple_protocol, the last three also behind pgbouncer/", name)
}
