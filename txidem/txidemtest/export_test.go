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
