package lives

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"syscall"
)

// exitOrphaned is the exit status of a process whose parent is gone.
const exitOrphaned = 3

// Assigned reads the assignment of a process, and calls hear with each line that the parent says later. The process ends
// when its parent does.
func Assigned(stdin io.Reader, assignment any, hear func(line string)) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, assignment)
	}
	if err != nil {
		return err
	}
	go func() {
		for {
			said, err := in.ReadString('\n')
			if err != nil {
				os.Exit(exitOrphaned)
			}
			hear(strings.TrimSpace(said))
		}
	}()
	return nil
}

// Marks returns where a process writes what is to outlive it.
func Marks() io.Writer { return os.NewFile(marksFile, "marks") }

// KillSelf ends the process as nothing else does: no deferred function, no closing of the connection by pgx.
func KillSelf() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // the signal may take its time
}
