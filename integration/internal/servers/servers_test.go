package servers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/moby/moby/client"
)

func TestMain(m *testing.M) { Main(m) }

// somewhere is [Everywhere], and with -short the newest place: suites that are never short kill and freeze servers in all of them.
func somewhere(t *testing.T, test func(*testing.T, Place)) {
	t.Helper()
	if !testing.Short() {
		Everywhere(t, test)
		return
	}
	t.Parallel()
	places, err := AtHand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	test(t, places[len(places)-1])
}

// ask runs one statement in a session of its own.
func ask(t *testing.T, s *Server, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var answer string
	err = conn.QueryRow(ctx, sql).Scan(&answer)
	return answer, err
}

func mustAsk(t *testing.T, s *Server, sql, want string) {
	t.Helper()
	if got, err := ask(t, s, sql); err != nil || got != want {
		t.Fatalf("%s: %q (%v), want %q", sql, got, err, want)
	}
}

// TestServer_R02_KeepsWhatItSaidThroughAKill: same URL, same data, nothing runs in between.
func TestServer_R02_KeepsWhatItSaidThroughAKill(t *testing.T) {
	somewhere(t, func(t *testing.T, p Place) {
		s := p.ForTest(t, &Config{Parameters: map[string]string{"work_mem": "7MB"}})
		if p.Container() && !strings.HasPrefix(s.Version(), p.Name()+".") {
			t.Errorf("it is PostgreSQL %s", s.Version())
		}
		mustAsk(t, s, `show work_mem`, "7MB")
		mustAsk(t, s, `show synchronous_commit`, "on")
		url := s.URL()
		for range 2 {
			mustAsk(t, s, `with n as (select 1) select '1' from n`, "1")
			if _, err := ask(t, s, `create table if not exists kept as select '5'::text as n`); err != nil && !strings.Contains(err.Error(), "no rows") {
				t.Fatal(err)
			}
			if err := s.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := ask(t, s, `select '1'`); err == nil {
				t.Error("a killed server answers")
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.URL() != url {
				t.Errorf("the URL is %s, was %s", s.URL(), url)
			}
			mustAsk(t, s, `select n from kept`, "5")
		}
	})
}

func TestServer_R20_FreezesAndThaws(t *testing.T) {
	somewhere(t, func(t *testing.T, p Place) {
		s := p.ForTest(t, nil)
		conn, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		if err := s.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		heard := make(chan error, 1)
		go func() {
			_, err := conn.Exec(t.Context(), `select 1`)
			heard <- err
		}()
		select {
		case err := <-heard:
			t.Errorf("a frozen server answers, with %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		if err := s.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-heard; err != nil {
			t.Error(err)
		}
	})
}

func TestServer_StandbyStreamsAndIsPromoted(t *testing.T) {
	somewhere(t, func(t *testing.T, p Place) {
		primary := p.ForTest(t, nil)
		standby := p.ForTest(t, &Config{Primary: primary})
		mustAsk(t, standby, `select pg_is_in_recovery()::text`, "true")
		wantWriter(t, standby, primary)
		wantWriter(t, primary, standby)
		if _, err := ask(t, primary, `create table streamed as select 1`); err != nil && !strings.Contains(err.Error(), "no rows") {
			t.Fatal(err)
		}
		mustAsk(t, standby, `select pg_promote()::text`, "true")
		mustAsk(t, standby, `select pg_is_in_recovery()::text`, "false")
		if err := primary.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantWriter(t, primary, standby)
	})
}

// wantWriter checks that the URL of both leads to the one that takes writes, whichever is named first.
func wantWriter(t *testing.T, both ...*Server) {
	t.Helper()
	url, err := Together(both...)
	if err != nil {
		t.Fatal(err)
	}
	mustAsk(t, &Server{url: url}, `select pg_is_in_recovery()::text`, "false")
}

// TestServer_LeavesNothing: neither when it is stopped nor when its process is killed.
func TestServer_LeavesNothing(t *testing.T) {
	somewhere(t, func(t *testing.T, p Place) {
		if !p.Container() {
			t.Skip("internal/devpg has tests of this")
		}
		engine, err := client.New(client.FromEnv)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = engine.Close() }()
		s, err := p.Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		id := s.body.(*inContainer).box.GetContainerID()
		volumes := func() []string {
			c, err := engine.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, m := range c.Container.Mounts {
				names = append(names, m.Name)
			}
			return names
		}()
		if len(volumes) != 1 {
			t.Fatalf("it has the volumes %q, want one", volumes)
		}
		for range 2 {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		}
		if _, err := engine.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err == nil {
			t.Error("the container is left")
		}
		if _, err := engine.VolumeInspect(t.Context(), volumes[0], client.VolumeInspectOptions{}); err == nil {
			t.Error("its volume is left")
		}
		id = fromKilled(t, p)
		if _, err := engine.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err != nil {
			t.Fatalf("the test proves nothing: %v", err)
		}
		if err := sweep(t.Context(), engine); err != nil {
			t.Error(err)
		}
		if _, err := engine.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err == nil {
			t.Error("the container of a killed process is left")
		}
	})
}

const envOrphan = "TXONCE_SERVERS_TEST_ORPHAN"

// fromKilled returns the container of a process that was killed.
func fromKilled(t *testing.T, p Place) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOrphan$")
	cmd.Env = append(os.Environ(), envOrphan+"="+p.Name())
	out, err := cmd.Output()
	if err == nil {
		t.Fatalf("the process was not killed; it says %s", out)
	}
	_, id, ok := strings.Cut(string(out), "orphan: ")
	if !ok {
		t.Fatalf("the process says %q (%v)", out, err)
	}
	return strings.TrimSpace(id)
}

// TestOrphan is what fromKilled runs.
func TestOrphan(t *testing.T) {
	name := os.Getenv(envOrphan)
	if name == "" {
		t.Skip("it is run by another test")
	}
	places, err := AtHand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.Name() != name {
			continue
		}
		s, err := p.Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("orphan: " + s.body.(*inContainer).box.GetContainerID() + "\n")
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		_ = self.Kill()
		select {}
	}
}

func TestAtHand_SaysWhy(t *testing.T) {
	t.Setenv(EnvServers, "")
	t.Setenv("DOCKER_HOST", "unix:///nowhere.sock")
	places, err := AtHand(t.Context())
	if err != nil || len(places) != 1 || places[0].Container() || places[0].String() != "local server binaries, for there is no container engine" {
		t.Errorf("without an engine there is %v (%v)", places, err)
	}
	t.Setenv(EnvServers, "containers")
	if places, err := AtHand(t.Context()); err == nil || !strings.Contains(err.Error(), "no container engine") {
		t.Errorf("where containers are asked for, there is %v (%v)", places, err)
	}
	t.Setenv(EnvServers, "cloud")
	if places, err := AtHand(t.Context()); err == nil || !strings.Contains(err.Error(), "containers or local") {
		t.Errorf("a wrong wish gives %v (%v)", places, err)
	}
}

// TestAtHand_R17_NoVersionIsLostInSilence: an engine that has one image of two, or does not say whether it has it.
func TestAtHand_R17_NoVersionIsLostInSilence(t *testing.T) {
	status := http.StatusOK // of the question for the second image
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "postgres:17/json") {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer engine.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+engine.Listener.Addr().String())
	for _, c := range []struct {
		status int
		asked  string
		places int
		says   string // the error, or why servers are local
	}{
		{http.StatusOK, "containers", 2, ""},
		{http.StatusOK, "", 2, ""},
		{http.StatusNotFound, "", 1, "container"},
		{http.StatusNotFound, "containers", 0, "make pg-image"},
		{http.StatusInternalServerError, "containers", 0, "does not say"},
		{http.StatusInternalServerError, "", 1, "local server binaries, for the container engine does not say"},
	} {
		status = c.status
		t.Setenv(EnvServers, c.asked)
		places, err := AtHand(t.Context())
		if len(places) != c.places || !strings.Contains(fmt.Sprint(places, err), c.says) {
			t.Errorf("%d, asked for %q: %v, %v; want %d and %q", c.status, c.asked, places, err, c.places, c.says)
		}
	}
}
