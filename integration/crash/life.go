package main

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/txonce/txonce/integration/internal/lives"
)

// life is what became of a worker.
type life struct {
	told    []answer
	torn    bool  // its last line is not complete: that was no answer
	mark    *mark // what it left behind, if anything
	killed  bool  // by SIGKILL
	problem string
}

// live runs a worker to its end, of whatever kind. It returns an error only if there was none to run, or if ctx ended.
func live(ctx context.Context, a assignment, alive *os.File) (life, error) {
	p, err := lives.Start(ctx, workerEnv, a, alive)
	if err != nil {
		return life{}, err
	}
	defer p.Close()
	end := p.Wait()
	if ctx.Err() != nil {
		return life{}, context.Cause(ctx)
	}
	left, err := io.ReadAll(p.Marks())
	if err != nil {
		return life{}, err
	}
	return newLife(end, left), nil
}

// newLife makes sense of what a worker left.
func newLife(end lives.End, left []byte) life {
	l := life{killed: end.Killed()}
	var toldErr, markErr error
	l.told, l.torn, toldErr = lives.Lines[answer](end.Stdout)
	if len(left) > 0 {
		l.mark = &mark{}
		markErr = json.Unmarshal(left, l.mark)
	}
	l.problem = lives.Problem(end, l.mark, l.mark != nil && l.mark.proven(), toldErr, markErr)
	return l
}

// death returns where the worker died, if it is proven that it did so where it was to: by SIGKILL, and with a mark.
func (l life) death() (mark, bool) {
	if !l.killed || l.mark == nil || !l.mark.proven() {
		return mark{}, false
	}
	return *l.mark, true
}
