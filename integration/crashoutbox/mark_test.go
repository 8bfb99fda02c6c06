package main

import (
	"testing"

	"github.com/txonce/txonce/integration/internal/lives"
)

// proofs returns a mark for each point that proves it.
func proofs() map[point]mark {
	answered, unsent := lives.Exchange{Size: 9, Written: 9, Read: 5}, lives.Exchange{Size: 9}
	sent, partly := lives.Exchange{Size: 9, Written: 9}, lives.Exchange{Size: 9, Written: 4}
	all := make(map[point]mark)
	for p, seen := range map[point]trace{
		publishQueued:   {Queued: true},
		publishUnsent:   {Queued: true, Record: unsent},
		publishPart:     {Queued: true, Record: partly},
		publishedSent:   {Queued: true, Record: sent},
		publishedUntold: {Queued: true, Record: answered, Returned: true},
	} {
		all[p] = mark{Step: stepOf(p), Point: p, Intent: 3, Trace: seen}
	}
	all[idleUnsent] = mark{Step: atIdle, Point: idleUnsent, Trace: trace{Look: unsent}}
	all[claimedSent] = mark{Step: atClaimed, Point: claimedSent, Trace: trace{Look: sent}}
	all[claimedRead] = mark{Step: atClaimed, Point: claimedRead, Message: "A", Has: []string{"A"}, Trace: trace{Look: answered}}
	for p, seen := range map[point]trace{
		beforeBegun:    {Begun: true},
		afterSent:      {Begun: true, Sent: true},
		afterAnswered:  {Begun: true, Sent: true, Answered: true},
		afterUnsettled: {Begun: true, Sent: true, Answered: true, Settle: unsent},
		settlingPart:   {Begun: true, Sent: true, Answered: true, Settle: partly},
		settlingSent:   {Begun: true, Sent: true, Answered: true, Settle: sent},
	} {
		all[p] = mark{Step: stepOf(p), Point: p, Message: "A", Has: []string{"A"}, Trace: seen}
	}
	all[stopBegun] = mark{Point: stopBegun, Stopped: true, Message: "A", Trace: trace{Begun: true}}
	all[stopSettling] = mark{Point: stopSettling, Stopped: true, Message: "A", Trace: trace{Begun: true, Sent: true, Settle: unsent}}
	return all
}

// TestMark_ProvesOnePoint: what was seen at one point is no proof of any other.
func TestMark_ProvesOnePoint(t *testing.T) {
	t.Parallel()
	all := proofs()
	for _, s := range steps() {
		for _, p := range points(s) {
			proof := all[p]
			if !proof.proven() || proof.Step != s {
				t.Errorf("%s is not proven by %+v", p, proof)
			}
			for q, seen := range all {
				seen.Point, seen.Step, seen.Stopped = p, s, false
				if p != q && q != stopBegun && q != stopSettling && seen.proven() {
					t.Errorf("seen at %s, told as %s: it is proven", q, p)
				}
			}
			for _, wrong := range steps() {
				if seen := proof; wrong != s {
					if seen.Step = wrong; seen.proven() {
						t.Errorf("%s counts as a death at %s", p, wrong)
					}
				}
			}
		}
	}
	for _, p := range stopPoints() {
		proof := all[p]
		if !proof.proven() {
			t.Errorf("%s is not proven by %+v", p, proof)
		}
		if proof.Stopped = false; proof.proven() {
			t.Errorf("%s counts as a death", p)
		}
	}
	if (mark{}).proven() || (mark{Stopped: true, Message: "A"}).proven() {
		t.Error("an empty mark proves something")
	}
}

// TestMark_ARelayThatHasMessagesIsNotIdle, whatever it looks for.
func TestMark_ARelayThatHasMessagesIsNotIdle(t *testing.T) {
	t.Parallel()
	m := proofs()[idleUnsent]
	if m.Has = []string{"A"}; m.proven() {
		t.Error("it counts as idle")
	}
	m = proofs()[claimedRead]
	if m.Has = nil; m.proven() {
		t.Error("a look that found nothing counts as a claim")
	}
}
