package lives

import (
	"fmt"
	"strings"
)

// PlantNames are the names of mistakes that processes can be told to make, as people read them.
func PlantNames[P ~string](plants []P) string {
	var names []string
	for _, p := range plants {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// ParsePlant reads the flag that names a mistake: nothing or 0 for none, 1 for the first one, or a name.
func ParsePlant[P ~string](name string, plants []P) (P, error) {
	switch name {
	case "", "0":
		return "", nil
	case "1":
		return plants[0], nil
	}
	for _, p := range plants {
		if string(p) == name {
			return p, nil
		}
	}
	return "", fmt.Errorf("-plant is %q; use %s, or 1 for the first of them", name, PlantNames(plants))
}
