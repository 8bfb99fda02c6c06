//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the operating system user that runs the server.
type account struct {
	name    string
	uid     uint32
	gid     uint32
	dropped bool // we are root, and the account is another
}

// serverAccount returns the user to run a server as. PostgreSQL refuses to run
// as root, so root hands over to a user who can do less.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		a := account{name: "uid " + strconv.Itoa(os.Geteuid())}
		if u, err := user.Current(); err == nil {
			a.name = u.Username
		}
		return a, nil
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		// Some systems give nobody the id -2, hence signed and 64 bits.
		uid, uerr := strconv.ParseInt(u.Uid, 10, 64)
		gid, gerr := strconv.ParseInt(u.Gid, 10, 64)
		if uerr == nil && gerr == nil && uid != 0 {
			return account{name: name, uid: uint32(uid), gid: uint32(gid), dropped: true}, nil
		}
	}
	return account{}, fmt.Errorf("devpg: PostgreSQL does not run as root, and there is no user postgres or nobody to run it as; run as an ordinary user, add one of these users, or set %s to the URL of a running server", EnvURL)
}

// sysProcAttr makes a child run as a, in a session of its own if asked.
func (a account) sysProcAttr(session bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: session}
	if a.dropped {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// chown gives path to a.
func (a account) chown(path string) error {
	if !a.dropped {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
