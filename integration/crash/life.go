package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	l, status, stderr := life{killed: end.Killed()}, end.Status, end.Stderr
	var err error
	l.told, l.torn, err = readAnswers(end.Stdout)
	if err == nil && len(left) > 0 {
		l.mark = &mark{}
		err = json.Unmarshal(left, l.mark)
	}
	switch err = errors.Join(err, end.InputErr); {
	case err != nil:
		l.problem = fmt.Sprintf("what a worker said cannot be understood: %v", err)
	case len(stderr) > 0:
		l.problem = fmt.Sprintf("a worker complains: %s", bytes.TrimSpace(stderr))
	case l.killed && l.mark == nil:
		l.problem = "a worker was killed by somebody else"
	case l.killed && !l.mark.proven():
		l.problem = fmt.Sprintf("a worker was not where it was to die: %+v", *l.mark)
	case !l.killed && l.mark != nil:
		l.problem = fmt.Sprintf("a worker survived its death: %+v", *l.mark)
	case !l.killed && (!status.Exited() || status.ExitStatus() != 0):
		l.problem = fmt.Sprintf("a worker ended with status %d, signal %v", status.ExitStatus(), status.Signal())
	}
	return l
}

// death returns where the worker died, if it is proven that it did so where it was to: by SIGKILL, and with a mark.
func (l life) death() (mark, bool) {
	if !l.killed || l.mark == nil || !l.mark.proven() {
		return mark{}, false
	}
	return *l.mark, true
}

// readAnswers reads complete lines. What comes behind the last line feed was told to nobody.
func readAnswers(stdout []byte) (answers []answer, torn bool, err error) {
	for {
		line, rest, complete := bytes.Cut(stdout, []byte{'\n'})
		if !complete {
			return answers, len(line) > 0, nil
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return answers, false, fmt.Errorf("line %q: %w", line, err)
		}
		answers, stdout = append(answers, a), rest
	}
}
