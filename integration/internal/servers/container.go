package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	dataDir  = "/var/lib/postgresql/data"
	ownPort  = "5432/tcp"
	tries    = 5        // of a port that somebody else may take first, and of what a busy machine refuses
	endOfLog = 16 << 10 // bytes
)

// labelOwner tells whose container it is: those of processes that are gone are removed.
const labelOwner = "dev.txonce.owner"

// standby copies the primary at PRIMARY once, and streams from it.
const standby = `
set -e
if [ "$(id -u)" -eq 0 ]; then
	mkdir -p "$PGDATA" /var/run/postgresql
	chown postgres:postgres "$PGDATA" /var/run/postgresql
	chmod 700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups -- sh -c "$1" sh "$@"
fi
shift
for try in 1 2 3 4 5; do # the primary may still have to hear of the change that lets a standby in
	[ ! -s "$PGDATA/PG_VERSION" ] || break
	pg_basebackup --no-sync --checkpoint=fast -R -d "$PRIMARY" -D "$PGDATA" || sleep 1
done
exec postgres "$@"`

// letStandbysIn lets them connect to the primary, in which an image of a registry has nobody for replication.
const letStandbysIn = `
grep -q '^host replication all all ' "$PGDATA/pg_hba.conf" || {
	echo 'host replication all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	kill -HUP 1
}`

// inContainer is a server in a container. Its port on the host is chosen by us, for the engine would choose another one at each
// start.
type inContainer struct {
	engine *client.Client
	box    *testcontainers.DockerContainer

	once    sync.Once
	stopErr error
}

// prepareOnce sets what testcontainers has for the whole process. Its reaper is an image that is not at hand everywhere: sweep does
// that work. And it introduces itself at length.
var prepareOnce = sync.OnceValue(func() error {
	log.SetDefault(log.NewNoopLogger())
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); set {
		return nil
	}
	return os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
})

// startContainer starts a container and says where its server will be reached.
func startContainer(ctx context.Context, p Place, cfg *Config) (body, string, error) {
	if err := prepareOnce(); err != nil {
		return nil, "", err
	}
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return nil, "", err
	}
	if err := sweep(ctx, engine); err != nil {
		return nil, "", errors.Join(err, engine.Close())
	}
	password := rand.Text()
	primary := ""
	if cfg.Primary != nil {
		if err = cfg.Primary.Shell(ctx, letStandbysIn); err == nil {
			password, primary, err = cfg.Primary.insideOut(ctx)
		}
		if err != nil {
			return nil, "", errors.Join(err, engine.Close())
		}
	}
	clock, err := makeClock(ctx, cfg.Ahead)
	if err != nil {
		return nil, "", errors.Join(err, engine.Close())
	}
	for range tries {
		c := &inContainer{engine: engine}
		port, err := freePort()
		if err == nil {
			c.box, err = testcontainers.Run(ctx, p.image, append(options(cfg, port, password, primary), withClock(clock)...)...)
		}
		if err == nil {
			return c, address(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), password), nil
		}
		err = errors.Join(err, c.remove())
		if !isTaken(err) {
			return nil, "", errors.Join(err, engine.Close())
		}
	}
	return nil, "", errors.Join(fmt.Errorf("each of %d ports was taken by somebody else", tries), engine.Close())
}

func options(cfg *Config, port int, password, primary string) []testcontainers.ContainerCustomizer {
	settings := append(cfg.settings(), "-c", "password_encryption=scram-sha-256")
	all := []testcontainers.ContainerCustomizer{
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": password, "PRIMARY": primary}),
		testcontainers.WithExposedPorts(ownPort),
		testcontainers.WithLabels(map[string]string{labelOwner: owner(os.Getpid())}),
		testcontainers.WithCmd(append([]string{"postgres"}, settings...)...),
		testcontainers.WithConfigModifier(func(c *container.Config) { c.StopSignal = "SIGINT" }),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = network.PortMap{
				network.MustParsePort(ownPort): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port)}},
			}
			h.ShmSize = 256 << 20
			if cfg.Megabytes == 0 { // a volume of its own, which is quicker than the container's layers, and outlives a kill
				h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Target: dataDir})
			}
		}),
	}
	if cfg.Megabytes > 0 {
		all = append(all, testcontainers.WithTmpfs(map[string]string{dataDir: fmt.Sprintf("rw,size=%dm", cfg.Megabytes)}))
	}
	if primary != "" {
		all = append(all, testcontainers.WithCmd(append([]string{"sh", "-c", standby, "sh", standby}, settings...)...))
	}
	return all
}

// Inside is the URL under which other containers reach the server, and its own tools do.
func (s *Server) Inside(ctx context.Context) (string, error) {
	_, url, err := s.insideOut(ctx)
	return url, err
}

// Shell runs a script where the server's own tools are: psql, pg_dump, pg_restore. env has elements of the form "name=value". Containers
// only.
func (s *Server) Shell(ctx context.Context, script string, env ...string) error {
	c, ok := s.body.(*inContainer)
	if !ok {
		return errors.New("servers: a script needs a container to run in; make pg-image makes the images")
	}
	code, out, err := c.box.Exec(ctx, []string{"sh", "-c", script}, exec.WithEnv(env), exec.Multiplexed())
	_, closing := c.box.Inspect(ctx) // Exec keeps a connection to the engine that is idle; this ends such ones with its own
	if err = errors.Join(err, closing); err != nil {
		return fmt.Errorf("servers: %s: %w", s.place, err)
	}
	said, err := io.ReadAll(out)
	switch {
	case err != nil:
		return fmt.Errorf("servers: %s: %w", s.place, err)
	case code != 0:
		return fmt.Errorf("servers: %s: the script ends with %d and says:\n%s", s.place, code, said)
	}
	return nil
}

// insideOut says how another container reaches the primary.
func (s *Server) insideOut(ctx context.Context) (password, primary string, err error) {
	c, ok := s.body.(*inContainer)
	if !ok {
		return "", "", errors.New("the primary is no container")
	}
	ip, err := c.box.ContainerIP(ctx)
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return "", "", err
	}
	password, _ = u.User.Password()
	return password, address(net.JoinHostPort(ip, "5432"), password), nil
}

func address(hostPort, password string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", password), Host: hostPort, Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (c *inContainer) kill(ctx context.Context) error {
	if _, err := c.engine.ContainerKill(ctx, c.box.GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		return err
	}
	gone := c.engine.ContainerWait(ctx, c.box.GetContainerID(), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-gone.Result:
		return nil
	case err := <-gone.Error:
		return err
	}
}

// start tries again where somebody has its port, which nobody keeps for it while it is down.
func (c *inContainer) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err = c.engine.ContainerStart(ctx, c.box.GetContainerID(), client.ContainerStartOptions{})
		if err == nil || !isTaken(err) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// isTaken reports whether somebody else has the port.
func isTaken(err error) bool {
	return strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use")
}

// freeze tries again where the engine finds the processes too busy to be frozen at once.
func (c *inContainer) freeze(ctx context.Context) (err error) {
	for range tries {
		_, err = c.engine.ContainerPause(ctx, c.box.GetContainerID(), client.ContainerPauseOptions{})
		if err == nil || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
	}
	return err
}

func (c *inContainer) thaw(ctx context.Context) error {
	_, err := c.engine.ContainerUnpause(ctx, c.box.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}

func (c *inContainer) stop() error {
	c.once.Do(func() { c.stopErr = errors.Join(c.remove(), c.engine.Close()) })
	return c.stopErr
}

// remove removes the container and its volume, whatever its state.
func (c *inContainer) remove() error {
	if c.box == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.engine.ContainerRemove(ctx, c.box.GetContainerID(), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

func (c *inContainer) says() string {
	r, err := c.box.Logs(context.Background())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Close() }()
	text, _ := io.ReadAll(r)
	return string(text[max(0, len(text)-endOfLog):])
}
