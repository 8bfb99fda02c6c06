package main

import (
	"bytes"
	"encoding/json"
	"fmt"

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
	var err error
	l.told, err = readAnswers(end.Stdout)
	switch {
	case err != nil || markErr != nil || end.InputErr != nil:
		l.problem = fmt.Sprintf("what a process said cannot be understood: %v, %v, %v", err, markErr, end.InputErr)
	case len(end.Stderr) > 0:
		l.problem = fmt.Sprintf("a process complains: %s", bytes.TrimSpace(end.Stderr))
	case l.killed && left == nil:
		l.problem = "a process was killed by somebody else"
	case l.killed && !left.proven():
		l.problem = fmt.Sprintf("a process was not where it was to die: %+v", *left)
	case !l.killed && left != nil:
		l.problem = fmt.Sprintf("a process survived its death: %+v", *left)
	case !l.killed && (!end.Status.Exited() || end.Status.ExitStatus() != 0):
		l.problem = fmt.Sprintf("a process ended with status %d, signal %v", end.Status.ExitStatus(), end.Status.Signal())
	}
	return l
}

// death returns where the process died, if it is proven that it did so where it says.
func (l life) death() (mark, bool) {
	if !l.killed || l.mark == nil || !l.mark.proven() {
		return mark{}, false
	}
	return *l.mark, true
}

// readAnswers reads complete lines. What comes behind the last line feed was told to nobody.
func readAnswers(stdout []byte) (answers []answer, err error) {
	for {
		line, rest, complete := bytes.Cut(stdout, []byte{'\n'})
		if !complete {
			return answers, nil
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return answers, fmt.Errorf("line %q: %w", line, err)
		}
		answers, stdout = append(answers, a), rest
	}
}
