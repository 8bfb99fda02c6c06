package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/txonce/txonce/internal/pgturns"
)

// TestReaper_DiesWhereItIsTold: how much of a turn goes out, and that the mark proves the point. Calls of another mode, and
// those in front of the one that is meant, live.
func TestReaper_DiesWhereItIsTold(t *testing.T) {
	t.Parallel()
	for _, m := range allModes() {
		for _, s := range steps() {
			for _, p := range m.points(s) {
				t.Run(string(m)+"/"+string(p), func(t *testing.T) {
					t.Parallel()
					dies(t, death{Mode: m, Step: s, Point: p, After: 1, Part: 0.99})
					dies(t, death{Mode: m, Step: s, Point: p, After: 1, Part: 0})
				})
			}
		}
	}
}

func dies(t *testing.T, plan death) {
	t.Helper()
	var marks bytes.Buffer
	r := newReaper(&plan, &marks)
	died := make(chan bool, 1)
	r.kill = func() {
		died <- true
		runtime.Goexit()
	}
	c := &aCall{t: t, reaper: r, scanner: connected(t)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		other := runMode
		if plan.Mode == runMode {
			other = txMode
		}
		c.make(0, 6, plan.Mode)
		c.make(1, 8, other)
		c.make(2, 7, plan.Mode)
	}()
	<-ended
	if len(died) != 1 {
		t.Fatal("it did not die")
	}
	var m mark
	if err := json.Unmarshal(marks.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if !m.proven() || m.spot() != plan.spot() || m.Point != plan.Point || m.Intent != 7 {
		t.Errorf("the mark %+v is no proof of %s in intent 7", m, plan.Point)
	}
	if committed := bytes.Contains(c.server.Bytes(), encode(t, executing("commit")[0])); committed == m.beforeCommit() && !m.Mode.leased() {
		t.Errorf("COMMIT was written: %v", committed)
	}
	if bytes.Contains(c.stdout.Bytes(), []byte{'\n'}) {
		t.Errorf("the answer was told: %q", c.stdout.String())
	}
}

// aCall is what a protected call looks like to the reaper.
type aCall struct {
	t              *testing.T
	reaper         *reaper
	scanner        *pgturns.Scanner
	server, stdout bytes.Buffer
}

func (c *aCall) send(names ...string) {
	var messages []message
	for _, name := range names {
		messages = append(messages, executing(name)...)
	}
	b := encode(c.t, append(messages, &pgproto3.Sync{})...)
	if _, err := c.reaper.write(&c.server, turnOf(c.scanner.Turn(b)), b); err != nil {
		c.t.Error(err)
	}
	c.reaper.read(10)
}

func (c *aCall) make(number, intent int, m mode) {
	c.server.Reset()
	c.stdout.Reset()
	c.reaper.begin(number, intent, m)
	switch m {
	case batchMode:
		c.reaper.handling(made)
		c.reaper.handled()
		c.send("begin", "claim", "record", "insert", "insert", "commit")
	case leasedMode:
		c.send("begin", "claim", "read", "lease", "commit")
		c.handler()
		c.send("begin", "insert", "leasedone", "commit")
	case txMode:
		c.send("begin")
		c.send("claim", "read")
		c.handler()
		c.send("record", "restore")
		c.send("insert")
		c.send("commit")
	default:
		c.send("begin", "claim", "read")
		c.handler()
		c.send("record", "commit")
	}
	if err := c.reaper.tell(&c.stdout, []byte(`{"Class":"done"}`+"\n"), true); err != nil {
		c.t.Error(err)
	}
}

func (c *aCall) handler() {
	c.reaper.handling(made)
	c.send("insert")
	c.reaper.between()
	if c.reaper.wants(inStatement) {
		c.send("sleep")
	}
	c.reaper.handled()
}
