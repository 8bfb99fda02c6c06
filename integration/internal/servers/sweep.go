package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/moby/client"
)

// owner names a process on this machine. A process id means something in its name space only.
func owner(pid int) string {
	host, _ := os.Hostname()
	space, _ := os.Readlink("/proc/self/ns/pid")
	return host + " " + space + " " + strconv.Itoa(pid)
}

// sweep removes the containers of processes that are gone.
func sweep(ctx context.Context, engine *client.Client) error {
	all, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelOwner)})
	if err != nil {
		return err
	}
	prefix := strings.TrimSuffix(owner(0), "0")
	for _, c := range all.Items {
		pid, err := strconv.Atoi(strings.TrimPrefix(c.Labels[labelOwner], prefix))
		if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // not ours to judge, or alive, though perhaps another user's
		}
		_, err = engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !strings.Contains(err.Error(), "o such container") && !strings.Contains(err.Error(), "already in progress") {
			return fmt.Errorf("a container that a killed process left: %w", err)
		}
	}
	return nil
}
