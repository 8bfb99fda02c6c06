//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

const secret = "s3cret/pw?" // must be percent-encoded, and must not be printed

// env returns a getenv that knows these variables only.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// listener listens on a free port and never answers.
func listener(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

func address(port int, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", secret),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Each is an error, though local binaries may well be there to fall back on.
func TestWrongURL(t *testing.T) {
	t.Parallel()
	closed, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, url string
		want      []string
	}{
		{"another database", "mysql://root:" + secret + "@localhost/x", []string{"does not begin with postgres://"}},
		{"not encoded", "postgres://postgres:" + secret + "@localhost/x", []string{"cannot be parsed", "percent-encoding"}},
		{"bad escape", "postgres://postgres:s3cret%zz@localhost/x", []string{"cannot be parsed", "percent-encoding"}},
		{"bad port", "postgres://postgres:s3cret@localhost:x/x", []string{"cannot be parsed"}},
		{"bad option", address(closed, "x") + "&sslmode=perhaps", []string{"cannot be parsed", "sslmode is invalid"}},
		{"bad pool option", address(closed, "x") + "&pool_max_conns=many", []string{"cannot parse pool_max_conns"}},
		{"refused", address(closed, "x"), []string{"connection refused", "start that server"}},
		{"no socket", "postgres://postgres@/x?password=s3cret&host=/nowhere", []string{"no such file", "start that server"}},
		{"silent", address(listener(t), "x"), []string{"nothing answered within 200ms"}},
		{"too old", address(fakeServer(t, "13.4 (Debian)"), "x"), []string{"PostgreSQL 14 or newer is needed", "PostgreSQL 13.4"}},
		{"unknown version", address(fakeServer(t, "unknown"), "x"), []string{"no version"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{EnvTestURL, EnvURL, "Config.URL"} {
				cfg := localConfig("")
				if tt.name == "silent" {
					cfg.host.connectTimeout = 200 * time.Millisecond
				}
				if cfg.host.getenv = env(name, tt.url); name == "Config.URL" {
					cfg.URL = tt.url
				}
				_, err := Start(t.Context(), cfg)
				checkURLError(t, err, name, tt.want...)
			}
		})
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	g := given{"DATABASE_URL", "postgres://u:" + url.QueryEscape(secret) + "@h/x?sslpassword=key"}
	got := g.mask("one " + secret + "\n\ttwo " + url.QueryEscape(secret) + " three key")
	if want := "one xxxxx two xxxxx three xxxxx"; got != want {
		t.Errorf("mask = %q, want %q", got, want)
	}
}

// checkURLError wants the variable, a remedy and no password.
func checkURLError(t *testing.T, err error, name string, want ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	text := err.Error()
	if !strings.HasPrefix(text, "devpg: "+name+" ") || strings.Contains(text, "\n") {
		t.Errorf("want one line that begins with the package and %s: %s", name, text)
	}
	for _, w := range append(want, "to have a server found or started") {
		if !strings.Contains(text, w) {
			t.Errorf("error lacks %q: %s", w, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("the password is in the error: %s", text)
	}
}

func TestWrongPasswordOrDatabase(t *testing.T) {
	t.Parallel()
	cfg := localConfig("")
	cfg.ListenTCP = true
	srv := mustStart(t, cfg)
	u, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	right := u.User
	for _, tt := range []struct {
		user     *url.Userinfo
		database string
		want     string
	}{
		{url.UserPassword("postgres", secret), "/postgres", "check its user name and password"},
		{right, "/nowhere", "create that database"},
	} {
		u.User, u.Path = tt.user, tt.database
		given := localConfig("")
		given.host.getenv = env(EnvURL, u.String())
		_, err := Start(t.Context(), given)
		checkURLError(t, err, EnvURL, tt.want)
		if password, _ := right.Password(); err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}

func TestGivenURL(t *testing.T) {
	t.Parallel()
	own := mustStart(t, localConfig(""))
	for _, tt := range []struct {
		cfg  string
		env  []string
		want string
	}{
		{own.URL(), []string{EnvTestURL, "wrong", EnvURL, "wrong"}, "Config.URL"},
		{"", []string{EnvTestURL, own.URL(), EnvURL, "wrong"}, EnvTestURL},
		{"", []string{EnvTestURL, "", EnvURL, own.URL() + "&pool_max_conns=3"}, EnvURL},
	} {
		srv, err := Start(t.Context(), &Config{URL: tt.cfg, host: host{getenv: env(tt.env...)}})
		if err != nil {
			t.Fatal(err)
		}
		if srv.Source() != tt.want || srv.Version() != own.Version() || srv.PID() != 0 || !strings.HasPrefix(srv.URL(), own.URL()) {
			t.Errorf("got %q %q %d %q", srv.Source(), srv.Version(), srv.PID(), srv.URL())
		}
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	}
	show(t, own.URL(), "port") // Stop left it alone
	if err := own.Stop(); err != nil {
		t.Error(err)
	}
}

// fakeServer lets everybody in and claims to be of this version.
func fakeServer(t *testing.T, version string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { greet(conn, version) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

func greet(conn net.Conn, version string) {
	defer func() { _ = conn.Close() }()
	be := pgproto3.NewBackend(conn, conn)
	if _, err := be.ReceiveStartupMessage(); err != nil {
		return
	}
	be.Send(&pgproto3.AuthenticationOk{})
	be.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
	be.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	be.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := be.Flush(); err != nil {
		return
	}
	_, _ = be.Receive() // until the client leaves
}
