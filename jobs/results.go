package jobs

import "reflect"

// Results says of which type the result of each kind of job is. It is for those who describe results, such as statustool.
func (r *Runner) Results() map[string]reflect.Type {
	types := make(map[string]reflect.Type, len(r.kinds))
	for kind, def := range r.kinds {
		types[kind] = def.out
	}
	return types
}
