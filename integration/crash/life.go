package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
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
	input, err := json.Marshal(a)
	if err != nil {
		return life{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return life{}, err
	}
	marks, marksEnd, err := os.Pipe()
	if err != nil {
		return life{}, err
	}
	defer func() { _ = marks.Close() }()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.ExtraFiles = []*os.File{marksEnd, alive}          // marksFile, aliveFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we end the worker
	stdin, err := cmd.StdinPipe()                         // open as long as we live
	if err == nil {
		err = cmd.Start()
	}
	_ = marksEnd.Close()
	if err != nil {
		return life{}, fmt.Errorf("a worker cannot be started: %w", err)
	}
	_, inputErr := stdin.Write(append(input, '\n'))
	_ = cmd.Wait() // its error is in the state
	if ctx.Err() != nil {
		return life{}, context.Cause(ctx)
	}
	left, err := io.ReadAll(marks)
	if err != nil {
		return life{}, err
	}
	return newLife(cmd.ProcessState.Sys().(syscall.WaitStatus), stdout.Bytes(), stderr.Bytes(), left, inputErr), nil
}

// newLife makes sense of what a worker left.
func newLife(status syscall.WaitStatus, stdout, stderr, left []byte, inputErr error) life {
	l := life{killed: status.Signaled() && status.Signal() == syscall.SIGKILL}
	var err error
	l.told, l.torn, err = readAnswers(stdout)
	if err == nil && len(left) > 0 {
		l.mark = &mark{}
		err = json.Unmarshal(left, l.mark)
	}
	switch err = errors.Join(err, inputErr); {
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
