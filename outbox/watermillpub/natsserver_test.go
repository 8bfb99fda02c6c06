package watermillpub_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// natsServer is a broker of a test: a process, on a directory and a port that stay the same when it is started again.
type natsServer struct {
	t         *testing.T
	bin, dir  string
	port      string
	stopped   sync.Once
	stdin     io.Closer
	cmd       *exec.Cmd
	logged    sync.WaitGroup
	mu        sync.Mutex
	lastLines []string
}

// watched runs the broker until its standard input ends: when the test says so, or this process has died.
const watched = `"$@" </dev/null 2>&1 & child=$!
exec >/dev/null
read -r _
kill -KILL "$child"
wait "$child"`

// startNATS starts a broker that is stopped when the test ends, or skips the test where there is none to start.
func startNATS(t *testing.T) *natsServer {
	t.Helper()
	bin := ""
	for _, candidate := range []string{"nats-server", "/usr/sbin/nats-server", "/usr/local/sbin/nats-server", "/usr/local/bin/nats-server", "/opt/homebrew/bin/nats-server"} {
		if found, err := exec.LookPath(candidate); err == nil {
			bin = found
			break
		}
	}
	if bin == "" {
		t.Skip("no nats-server on this machine; install it (scripts/setup.sh broker does) to run this test")
	}
	s := &natsServer{t: t, bin: bin, dir: t.TempDir(), port: "-1"}
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

var (
	listening = regexp.MustCompile(`Listening for client connections on 127\.0\.0\.1:(\d+)`)
	ready     = regexp.MustCompile(`Server is ready`)
)

// start starts it and waits until it takes connections.
func (s *natsServer) start() {
	s.t.Helper()
	s.cmd = exec.Command("sh", "-c", watched, "sh", s.bin, "-a", "127.0.0.1", "-p", s.port, "-js", "-sd", filepath.Join(s.dir, "store"))
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "TMPDIR="+s.dir)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	log, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.stdin, s.stopped = stdin, sync.Once{}
	up := make(chan string, 1)
	s.logged.Go(func() { s.read(log, up) })
	select {
	case port, ok := <-up:
		if !ok {
			s.kill()
			s.t.Fatalf("nats-server did not start:\n%s", s.log())
		}
		s.port = port
	case <-time.After(time.Minute):
		s.kill()
		s.t.Fatalf("nats-server is not ready after a minute:\n%s", s.log())
	}
}

// read reads what it logs, and says on which port it listens once it is ready; up is closed when it has ended.
func (s *natsServer) read(log io.Reader, up chan<- string) {
	defer close(up)
	port := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		s.mu.Lock()
		s.lastLines = append(s.lastLines, lines.Text())
		s.lastLines = s.lastLines[max(0, len(s.lastLines)-40):]
		s.mu.Unlock()
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			port = found[1]
		}
		if ready.MatchString(lines.Text()) {
			up <- port
		}
	}
}

// kill kills it, as a crash would, and returns when it is gone.
func (s *natsServer) kill() {
	s.stopped.Do(func() {
		_ = s.stdin.Close()
		s.logged.Wait()
		_ = s.cmd.Wait() // its status is that of a process that was killed
	})
}

func (s *natsServer) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lastLines, "\n")
}

func (s *natsServer) url() string { return "nats://" + net.JoinHostPort("127.0.0.1", s.port) }
