package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// ErrNoClock is returned when a server is to have a clock of its own and this machine cannot make one.
var ErrNoClock = errors.New("a clock of its own needs a C compiler; run scripts/setup.sh race")

// clockSource is a library that moves the clock, and leaves timers alone. libfaketime moves it too, but not in a signal handler that
// interrupts a wait: Postgres then finds all its time-outs over.
const clockSource = `
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (!failed && id == CLOCK_REALTIME)
		t->tv_sec += AHEAD;
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
`

const clockInside = "/usr/local/lib/clock.so"

// makeClock compiles the library, where one is needed.
func makeClock(ctx context.Context, ahead time.Duration) (library []byte, err error) {
	if ahead == 0 {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "txonce-clock-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "clock.so")
	cc := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O", fmt.Sprintf("-DAHEAD=(%d)", int(ahead.Seconds())), "-x", "c", "-", "-o", file)
	cc.Stdin = strings.NewReader(clockSource)
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %w %s", ErrNoClock, err, out)
	}
	return os.ReadFile(file)
}

// withClock has all processes of a container read the clock of the library.
func withClock(library []byte) []testcontainers.ContainerCustomizer {
	if library == nil {
		return nil
	}
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithFiles(testcontainers.ContainerFile{Reader: bytes.NewReader(library), ContainerFilePath: clockInside, FileMode: 0o755}),
		testcontainers.WithEnv(map[string]string{"LD_PRELOAD": clockInside}),
	}
}
