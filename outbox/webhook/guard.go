package webhook

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// guard decides which addresses are connected to. It looks at the address of the connection, not at what a name resolved to
// earlier, so a name that resolves to another address each time cannot pass (O07).
type guard struct {
	all     bool
	allowed []netip.Prefix
	public  netip.Prefix // of IPv6, all else is refused: an unknown kind of address is not public
	refused []netip.Prefix

	resolver *net.Resolver // nil: the system's
}

func newGuard(all bool, allowed []netip.Prefix) *guard {
	g := &guard{all: all, public: netip.MustParsePrefix("2000::/3")}
	for _, prefix := range allowed { // as refuses sees addresses
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		g.allowed = append(g.allowed, prefix)
	}
	for _, text := range strings.Fields(notPublic) {
		g.refused = append(g.refused, netip.MustParsePrefix(text))
	}
	return g
}

// notPublic is from IANA's registries of special-purpose addresses: all of IPv4 that is not reached globally or reaches others than
// one host, and those parts of 2000::/3.
const notPublic = `
	0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
	192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
	2001::/23 2001:db8::/32 2002::/16 3fff::/20`

// refuses reports whether an address is not connected to.
func (g *guard) refuses(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("") // a prefix has no zone, and would not contain it
	contains := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case g.all || slices.ContainsFunc(g.allowed, contains):
		return false
	case ip.Is6() && !g.public.Contains(ip):
		return true
	}
	return !ip.IsValid() || slices.ContainsFunc(g.refused, contains)
}

// refusedError says that an address is not connected to.
type refusedError struct{ ip netip.Addr }

func (e *refusedError) Error() string {
	return fmt.Sprintf("leads to %v, which is not a public address; use a public one, or see Config.Allow", e.ip)
}

// dial connects. A name of which no address may be connected to is a refusedError; where one may, and it failed, that error counts,
// for it may go better later.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var refused atomic.Pointer[refusedError]
	var passed atomic.Bool
	dialer := net.Dialer{Timeout: connectTime, Resolver: g.resolver, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		if err := g.control(network, address); err != nil {
			refused.CompareAndSwap(nil, err)
			return err
		}
		passed.Store(true)
		return nil
	}}
	conn, err := dialer.DialContext(ctx, network, address)
	switch bad := refused.Load(); {
	case err == nil || bad == nil:
		return conn, err
	case passed.Load():
		return nil, fmt.Errorf("webhook: of several addresses, %v is not public, and the others do not answer: %s", bad.ip, err) // no refusedError
	default:
		return nil, bad
	}
}

// control looks at an address that is about to be connected to.
func (g *guard) control(network, address string) *refusedError {
	at, err := netip.ParseAddrPort(address)
	if err != nil || (network != "tcp4" && network != "tcp6") || g.refuses(at.Addr()) {
		return &refusedError{at.Addr()}
	}
	return nil
}
