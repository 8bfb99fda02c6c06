package webhook

import "net"

// SetResolver has another one look up names. Call it before the first delivery.
func (p *Publisher) SetResolver(r *net.Resolver) { p.guard.resolver = r }
