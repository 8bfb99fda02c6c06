package txidemtest

import "context"

// Missed is Check that returns the points which calls did not come to.
func Missed(ctx context.Context, test string, database func() string, tool Tool) (all []Finding, missed []string, err error) {
	err = check(ctx, test, database, tool, func(name string, do part) error {
		found, err := do(ctx)
		if found.problem != "" {
			all = append(all, Finding{name, found.problem})
		}
		if found.missed {
			missed = append(missed, name)
		}
		return err
	})
	return all, missed, err
}

// Turns returns the names of the turns of a tool's first call.
func Turns(ctx context.Context, url string, tool Tool) (names []string, err error) {
	if tool, err = tool.withDefaults(); err != nil {
		return nil, err
	}
	k, err := open(ctx, url, "", tool)
	if err != nil {
		return nil, err
	}
	defer k.close()
	if _, err := k.inARow(ctx); err != nil {
		return nil, err
	}
	for _, t := range k.shape.turns {
		names = append(names, t.name)
	}
	return names, nil
}
