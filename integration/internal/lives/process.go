package lives

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Descriptors of a process, beside the usual ones.
const (
	marksFile = 3 // what it leaves goes here
	aliveFile = 4 // held open, so that its other end knows when all of them are gone
)

// Process is the program once more.
type Process struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr bytes.Buffer
	marks          *os.File
	inputErr       error
}

// Start starts a process, with env in its environment, the assignment in JSON on its standard input, which stays open for
// as long as we live, and the write end of a pipe that tells when all are gone. It is killed when ctx ends.
func Start(ctx context.Context, env string, assignment any, alive *os.File) (*Process, error) {
	input, err := json.Marshal(assignment)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	marks, marksEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, self), marks: marks}
	p.cmd.Env = append(os.Environ(), env+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.ExtraFiles = []*os.File{marksEnd, alive}          // marksFile, aliveFile
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we end the process
	p.stdin, err = p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	_ = marksEnd.Close()
	if err != nil {
		_ = marks.Close()
		return nil, fmt.Errorf("a worker cannot be started: %w", err)
	}
	_, p.inputErr = p.stdin.Write(append(input, '\n'))
	return p, nil
}

// Say writes a line to the process. One that is gone does not hear it.
func (p *Process) Say(line string) { _, _ = io.WriteString(p.stdin, line+"\n") }

// Signal sends a signal. One that is gone does not get it.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Marks is what the process writes to [Marks], until it is gone.
func (p *Process) Marks() io.Reader { return p.marks }

// End is what became of a process.
type End struct {
	Status         syscall.WaitStatus
	At             time.Time
	Stdout, Stderr []byte
	InputErr       error // the assignment could not be written
}

// Killed reports whether it was ended by SIGKILL.
func (e End) Killed() bool { return e.Status.Signaled() && e.Status.Signal() == syscall.SIGKILL }

// Wait waits for the end of the process. What is in [Process.Marks] can be read until Close.
func (p *Process) Wait() End {
	_ = p.cmd.Wait() // its error is in the state
	return End{
		At: time.Now(), Status: p.cmd.ProcessState.Sys().(syscall.WaitStatus), Stdout: p.stdout.Bytes(), Stderr: p.stderr.Bytes(), InputErr: p.inputErr,
	}
}

// Close closes the pipe of the marks, once the process has ended.
func (p *Process) Close() { _ = p.marks.Close() }
