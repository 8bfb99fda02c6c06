package servers

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// ErrNoClock is returned when a server is to have a clock of its own and this machine cannot give it one.
var ErrNoClock = errors.New("a clock of its own needs libfaketime; install it (Debian: apt-get install libfaketime)")

const clockInside = "/usr/local/lib/libfaketime.so.1"

// ownClock has all processes of a container read a clock that is ahead of the machine's. Timers run as they do anywhere.
func ownClock(ahead time.Duration) ([]testcontainers.ContainerCustomizer, error) {
	if ahead == 0 {
		return nil, nil
	}
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		return nil, ErrNoClock
	}
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithFiles(testcontainers.ContainerFile{HostFilePath: found[0], ContainerFilePath: clockInside, FileMode: 0o644}),
		testcontainers.WithEnv(map[string]string{
			"LD_PRELOAD": clockInside, "FAKETIME": fmt.Sprintf("%+ds", int(ahead.Seconds())), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
		}),
	}, nil
}
