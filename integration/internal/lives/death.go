package lives

import (
	"bytes"
	"errors"
	"fmt"
)

// Problem says what is wrong with the end of a process, or nothing. left is the mark that it left, if any; proven says that it
// was where the mark says; errs are those of reading what it told.
func Problem[M any](e End, left *M, proven bool, errs ...error) string {
	killed := e.Killed()
	switch err := errors.Join(append(errs, e.InputErr)...); {
	case err != nil:
		return fmt.Sprintf("what a process said cannot be understood: %v", err)
	case len(e.Stderr) > 0:
		return fmt.Sprintf("a process complains: %s", bytes.TrimSpace(e.Stderr))
	case killed && left == nil:
		return "a process was killed by somebody else"
	case killed && !proven:
		return fmt.Sprintf("a process was not where it was to die: %+v", *left)
	case !killed && left != nil:
		return fmt.Sprintf("a process survived its death: %+v", *left)
	case !killed && (!e.Status.Exited() || e.Status.ExitStatus() != 0):
		return fmt.Sprintf("a process ended with status %d, signal %v", e.Status.ExitStatus(), e.Status.Signal())
	}
	return ""
}
