package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/statustool"
)

// A whole run, a quick one. Whoever waits fails unless what it waits for has succeeded, so that it ends without an error says
// that each of them heard of its end.
func TestStatus_S03_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	o, err := parseStatus([]string{"-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.url = dbtest.URL(t)
	var out, progress bytes.Buffer
	if err := runStatus(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	form := regexp.MustCompile(`^bench-status: reads_per_s=\d+ rowless_reads_per_s=\d+ wake_p99_ms=-?\d+\.\d conns=\d+$`)
	if last := lines[len(lines)-1]; !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	for _, c := range wakeCells() {
		if !strings.Contains(out.String(), "\n"+c.name+" ") || !strings.Contains(progress.String(), c.name) {
			t.Errorf("%s is missing:\n%s\n%s", c.name, out.String(), progress.String())
		}
	}
	var left int
	err = dbtest.PoolAt(t, o.url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_bench%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	if o, err := parseStatus(nil, io.Discard); err != nil || o.waiters != 1000 {
		t.Errorf("by default %+v, %v; the goal is about 1,000 who wait", o, err)
	}
	if o, err := parseStatus([]string{"-waiters", "7", "-ends", "5", "-time", "300ms"}, io.Discard); err != nil || o.waiters != 7 || o.perSec != 5 || o.time != 300*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-waiters", "0"}, {"-waiters", "10001"}, {"-ends", "0"}, {"-ends", "1001"}, {"-time", "1ms"}, {"more"}, {"-what"}} {
		if _, err := parseStatus(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A read that finds something else must not get into the table.
func TestReads_S02_RefuseTheOtherCase(t *testing.T) {
	t.Parallel()
	_, l := fixture(t)
	ctx := t.Context()
	if err := callOurs(ctx, l, "made"); err != nil {
		t.Fatal(err)
	}
	h, err := statustool.Handler(&statustool.HandlerConfig{Scope: scopeOf}, l.store)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		call        func(context.Context, *link, string) error
		good, wrong string
	}{
		"Statuses, ended":       {callFinished, "made", "new"},
		"Statuses, no record":   {callRowless, "new", "made"},
		"statustool, ended":     {callTool(h, http.StatusOK), "made", "new"},
		"statustool, no record": {callTool(h, http.StatusNotFound), "new", "made"},
	} {
		if err := c.call(ctx, l, c.good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.call(ctx, l, c.wrong); err == nil {
			t.Errorf("%s: %s is accepted", name, c.wrong)
		}
	}
}

// What is there and not at work does not hear of an end in its own process.
func TestWakes_S03_OtherProcessesAreOthers(t *testing.T) {
	t.Parallel()
	db, _ := fixture(t)
	s := newStatusBench(db, statusOptions{time: 100 * time.Millisecond, waiters: 5, perSec: 100}, io.Discard)
	w, err := openWorld(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range wakeCells() {
		changed := w.there.store.Changed()
		changedJob := w.there.runner.Changed()
		if err := s.measureWake(t.Context(), w, &c); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		select {
		case <-changed:
			t.Errorf("%s: its store has heard of something", c.name)
		case <-changedJob:
			t.Errorf("%s: its runner has heard of something", c.name)
		default:
		}
		if c.conns < 1 || !c.near && c.conns > fewConns {
			t.Errorf("%s: %d connections", c.name, c.conns)
		}
	}
	if err := w.there.wait(t.Context(), idOf("never made")); err == nil {
		t.Error("what does not exist has ended well")
	}
}

func TestConnCount_S03_CountsTheMostThatAreOpen(t *testing.T) {
	t.Parallel()
	var c connCount
	refuse := false
	dial := c.dial(func(context.Context, string, string) (net.Conn, error) {
		if refuse {
			return nil, errors.New("refused")
		}
		here, there := net.Pipe()
		return here, there.Close()
	})
	var open []net.Conn
	for range 3 {
		conn, err := dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	for _, conn := range append(open, open[0]) { // one of them twice
		_ = conn.Close()
	}
	refuse = true
	if _, err := dial(t.Context(), "", ""); err == nil || c.open.Load() != 0 || c.most.Load() != 3 {
		t.Errorf("%d are open and %d have been, %v", c.open.Load(), c.most.Load(), err)
	}
}
