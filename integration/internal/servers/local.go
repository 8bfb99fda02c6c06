package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/txonce/txonce/internal/devpg"
)

// asProcess is a server of local binaries.
type asProcess struct {
	own       *devpg.Server
	dir       string // of its socket; its data are beneath
	restarted bool   // by its supervisor, when it was killed
	frozen    atomic.Bool
}

// startLocal starts one and says where it is reached.
func startLocal(ctx context.Context, _ Place, cfg *Config) (body, string, error) {
	if cfg.Megabytes > 0 {
		return nil, "", errors.New("bounded room needs a container")
	}
	if cfg.Ahead != 0 {
		return nil, "", errors.New("a clock of its own needs a container")
	}
	// devpg's servers may forget at a kill what they acknowledged, unless they are told not to, and a process may be killed in
	// the middle of writing a page.
	c := &devpg.Config{Parameters: map[string]string{"synchronous_commit": "on", "full_page_writes": "on"}}
	maps.Copy(c.Parameters, cfg.Parameters)
	p := &asProcess{restarted: cfg.Primary == nil}
	var err error
	if cfg.Primary == nil {
		p.own, err = devpg.StartSupervised(ctx, c)
	} else if primary, ok := cfg.Primary.body.(*asProcess); ok {
		p.own, err = devpg.StartStandby(ctx, primary.own, c)
	} else {
		err = errors.New("the primary is a container")
	}
	if err != nil {
		return nil, "", err
	}
	u, err := url.Parse(p.own.URL())
	if err != nil {
		return nil, "", errors.Join(err, p.own.Stop())
	}
	p.dir = u.Query().Get("host")
	return p, p.own.URL(), nil
}

// kill kills the server's processes, the one that would start others first, and sees to it that its supervisor waits.
func (p *asProcess) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.restarted {
		if err := os.WriteFile(p.down(), nil, 0o644); err != nil {
			return err
		}
	}
	all, err := p.processes(ctx)
	if err != nil {
		return err
	}
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	for _, pid := range all {
		for pause := time.Millisecond; syscall.Kill(pid, 0) == nil && !dead(ctx, pid); pause *= 2 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return fmt.Errorf("process %d does not end: %w", pid, context.Cause(ctx))
			}
		}
	}
	return nil
}

// dead reports whether a process has ended that nobody has waited for: who has taken its place as a parent may never do so.
func dead(ctx context.Context, pid int) bool {
	state, err := exec.CommandContext(ctx, "ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(state), []byte("Z"))
}

func (p *asProcess) start(context.Context) error {
	if !p.restarted {
		return errors.New("a standby of local binaries cannot be started again")
	}
	return os.Remove(p.down())
}

func (p *asProcess) down() string { return filepath.Join(p.dir, devpg.DownFile) }

func (p *asProcess) freeze(ctx context.Context) error {
	p.frozen.Store(true)
	return p.signal(ctx, syscall.SIGSTOP)
}

func (p *asProcess) thaw(ctx context.Context) error {
	p.frozen.Store(false)
	return p.signal(ctx, syscall.SIGCONT)
}

func (p *asProcess) signal(ctx context.Context, s syscall.Signal) error {
	all, err := p.processes(ctx)
	if err != nil {
		return err
	}
	for _, pid := range all {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// processes returns the postmaster, first, and its children, each of which has a process group of its own.
func (p *asProcess) processes(ctx context.Context) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "data", "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := bytes.Cut(text, []byte{'\n'})
	postmaster, err := strconv.Atoi(string(first))
	if err != nil {
		return nil, err
	}
	table, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	all := []int{postmaster}
	for line := range bytes.Lines(table) {
		var pid, parent int
		if _, err := fmt.Sscan(string(line), &pid, &parent); err == nil && parent == postmaster {
			all = append(all, pid)
		}
	}
	return all, nil
}

// stop kills what is frozen, for it would not hear that it is to end; nor may it do anything more.
func (p *asProcess) stop() error {
	if !p.frozen.Swap(false) {
		return p.own.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(p.kill(ctx), p.own.Stop())
}

func (p *asProcess) says() string { return "(its log is in " + p.dir + ")" }
