package faults

import (
	"bytes"
	"encoding/json"
	"net"
	"strconv"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/delayproxy"
)

// network is what lies between an application and its server, and may be ill.
type network struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

// The directions of a network.
const (
	up   = "upstream" // to the server
	down = "downstream"
)

// newNetwork makes a whole one in front of the server.
func newNetwork(t *testing.T, s *servers.Server) *network {
	t.Helper()
	quiet := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	n := &network{t: t, proxy: toxiproxy.NewProxy(quiet, "network", "127.0.0.1:0", tcpOf(t, s))}
	if err := n.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.proxy.Stop)
	return n
}

// tcpOf is where the server is reached by TCP. A server on a Unix socket gets a relay.
func tcpOf(t *testing.T, s *servers.Server) string {
	t.Helper()
	cfg, err := pgconn.ParseConfig(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	if network == "tcp" {
		return address
	}
	relay, err := delayproxy.New(delayproxy.Endpoint{Network: network, Address: address}, &delayproxy.Config{Delay: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	at, err := relay.Listen(delayproxy.Endpoint{Network: "tcp", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return at.String()
}

// address is where the network begins.
func (n *network) address() string { return n.proxy.Listen }

// route has the pool's connections go through the network.
func (n *network) route(cfg *pgxpool.Config) {
	host, port, err := net.SplitHostPort(n.address())
	if err != nil {
		n.t.Fatal(err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		n.t.Fatal(err)
	}
	cfg.ConnConfig.Host, cfg.ConnConfig.Port = host, uint16(number)
}

// toxic is one illness, in one direction. Toxicity is the share of connections that have it.
type toxic struct {
	Type       string           `json:"type"`
	Stream     string           `json:"stream"`
	Toxicity   float32          `json:"toxicity"`
	Attributes map[string]int64 `json:"attributes"`
}

// infect makes the network ill, for connections that are open and for new ones.
func (n *network) infect(toxics ...toxic) {
	n.t.Helper()
	for _, x := range toxics {
		text, err := json.Marshal(x)
		if err == nil {
			_, err = n.proxy.Toxics.AddToxicJson(bytes.NewReader(text))
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// heal makes it whole. Connections that were silent are cut.
func (n *network) heal() { n.proxy.Toxics.ResetToxics(n.t.Context()) }

// cut cuts all connections. New ones can be made at once.
func (n *network) cut() {
	n.t.Helper()
	n.proxy.Stop()
	if err := n.proxy.Start(); err != nil {
		n.t.Fatal(err)
	}
}
