package txidem

import (
	"context"
	"errors"
	"time"

	"pgregory.net/rapid"
)

// zombie is a leased attempt whose handler has not returned. It may have lost its lease.
type zombie struct {
	plan
	life  *life
	taken bool // it took over from one that was cut off
	there chan struct{}
	goOn  chan behaviour // what the handler is to do
	ended chan made
	ctx   context.Context
	paid  bool // the model knows what the provider was told
}

// leave begins a leased call and leaves it behind.
func (w *world) leave(t *rapid.T) {
	i := w.some(t, func(i *intent) bool { return i.free() || i.leased && i.cutOff() })
	p := w.planFor(t, i, WayLeased)
	taken := !i.free()
	if taken && (p.asks == noAsk && p.lost == Block || p.asks == asksInVain || p.asks == asks && len(i.lives[len(i.lives)-1].runs) > 0) {
		t.Skip()
	}
	early := rapid.Bool().Draw(t, "tells the provider at once")
	z := &zombie{there: make(chan struct{}), goOn: make(chan behaviour, 1), ended: make(chan made, 1)}
	var paid []int
	p.do = func(r *handlerRun, n int) error {
		z.ctx = r.ctx
		if early {
			if err := r.pay(); err != nil {
				return err
			}
			paid = append(paid, r.run)
		}
		close(z.there)
		return (<-z.goOn).do(r, n)
	}
	z.plan, z.taken = p, taken
	go func() { z.ended <- w.makeLeased(p) }()
	select {
	case <-z.there:
	case m := <-z.ended:
		t.Fatalf("it ended without a run: %+v, %v", m.Result, m.err)
	}
	if !taken {
		i.lives = append(i.lives, &life{})
	}
	z.life = i.lives[len(i.lives)-1]
	z.life.know(t, i, downstream(z.ctx))
	z.life.runs = append(z.life.runs, paid...)
	z.paid = len(paid) > 0
	i.row, i.leased, i.live, i.overdue, i.holder, i.argsOf, i.raw, i.at = stateRunning, true, true, false, z, p.args, "", time.Time{}
	w.zombies = append(w.zombies, z)
}

// comeBack lets the handler of a zombie return.
func (w *world) comeBack(t *rapid.T) {
	if len(w.zombies) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(w.zombies)-1).Draw(t, "zombie")
	z := w.zombies[at]
	z.behaviour = rapid.SampledFrom(leasedBehaviours).Draw(t, "handler")
	w.zombies = append(w.zombies[:at], w.zombies[at+1:]...)
	m := w.end(z)
	if z.paid {
		m.paid = nil // the model knows
	}
	judgeLeased(t, z.plan, m, z.life, z.taken, z.intent.holder == z)
}

func (w *world) end(z *zombie) made {
	z.goOn <- z.behaviour
	m := <-z.ended
	w.net.gone.Store(false)
	w.net.next.Store(nil)
	return m
}

// buryZombies ends what is left behind when the world ends.
func (w *world) buryZombies() {
	for _, z := range w.zombies {
		z.behaviour = behaviour{"is buried", released, 1, func(*handlerRun, int) error { return NotDone(errHandler) }}
		w.end(z)
	}
	w.zombies = nil
}

// runOut lets a lease run out.
func (w *world) runOut(t *rapid.T) {
	i := w.some(t, func(i *intent) bool { return i.live })
	w.f.exec(`update txonce.call set lease_until = clock_timestamp() where id = $1`, w.id(i).String())
	i.live = false
}

// takeOver has another call take the lease of an attempt that is left behind.
func (w *world) takeOver(t *rapid.T) {
	i := w.some(t, func(i *intent) bool { return i.holder != nil })
	w.f.exec(`update txonce.call set lease_until = clock_timestamp() where id = $1`, w.id(i).String())
	i.live = false
	p := w.planFor(t, i, WayLeased)
	p.lost, p.req.Policy.OnLeaseLost = RerunLost, RerunLost
	w.judge(t, p, w.make(p, nil))
}

// renew lets the time come to renew the leases of all who run: who lost his, or let it run out, is told.
func (w *world) renew(t *rapid.T) {
	if len(w.zombies) == 0 {
		t.Skip()
	}
	ls := &w.f.store.leases
	ls.mu.Lock()
	for _, l := range ls.live {
		l.next = time.Now()
	}
	select {
	case ls.wake <- struct{}{}:
	default:
	}
	ls.mu.Unlock()
	for _, z := range w.zombies {
		if i := z.intent; i.holder != z || !i.live {
			<-z.ctx.Done()
			if !errors.Is(context.Cause(z.ctx), ErrLeaseLost) {
				t.Fatalf("a zombie is told %v; want ErrLeaseLost", context.Cause(z.ctx))
			}
		}
	}
	eventually(w.f.t, "the leases are renewed", func() bool {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, l := range ls.live {
			if time.Until(l.next) < l.renewal/2 {
				return false
			}
		}
		return true
	})
	for _, z := range w.zombies {
		if z.intent.holder == z && z.intent.live {
			if z.intent.overdue { // whether a renewal puts that off plays no part here
				w.f.exec(`update txonce.call set expires_at = lease_until + interval '1 day' where id = $1`, w.id(z.intent).String())
				z.intent.overdue = false
			}
			if z.ctx.Err() != nil {
				t.Fatalf("an attempt that has its lease is cancelled: %v", context.Cause(z.ctx))
			}
		}
	}
}
