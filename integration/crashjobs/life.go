package main

import (
	"github.com/txonce/txonce/integration/internal/lives"
)

// life is what became of a process.
type life struct {
	told    []answer
	mark    *mark // what it left behind when it died, if it did
	killed  bool  // by SIGKILL
	problem string
}

// newLife makes sense of what a process left.
func newLife(end lives.End, left *mark, markErr error) life {
	l := life{killed: end.Killed(), mark: left}
	var toldErr error
	l.told, _, toldErr = lives.Lines[answer](end.Stdout)
	l.problem = lives.Problem(end, left, left != nil && left.proven(), toldErr, markErr)
	return l
}

// death returns where the process died, if it is proven that it did so where it says.
func (l life) death() (mark, bool) {
	if !l.killed || l.mark == nil || !l.mark.proven() {
		return mark{}, false
	}
	return *l.mark, true
}
