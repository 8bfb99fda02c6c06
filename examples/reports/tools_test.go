package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// service is a database, and processes of the service that run in this one.
type service struct {
	t   *testing.T
	db  *database
	url string // of the server
}

func newService(t *testing.T) *service {
	t.Helper()
	db, err := openDatabase(t.Context(), dbtest.URL(t), schemasNamed(defaultSchema))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := &service{t: t, db: db}
	s.url = s.start(serveTools, options{})
	return s
}

// start starts a process, and ends it with the test.
func (s *service) start(role func(context.Context, options, *database, *slog.Logger, func(string)) error, o options) (address string) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- role(ctx, o, s.db, slog.New(slog.DiscardHandler), func(address string) { ready <- address })
	}()
	select {
	case address = <-ready:
	case err := <-ended:
		stop()
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	return address
}

// quick is a worker whose reports take no time, slow one that would take minutes.
func (s *service) quick() { s.start(work, options{name: "quick"}) }
func (s *service) slow()  { s.start(work, options{name: "slow", takes: longestReport}) }

// as is a session of a caller.
func (s *service) as(token string) *line {
	a := newAgent(func() string { return s.url }, token, newBoard(io.Discard))
	l := &line{agent: a}
	s.t.Cleanup(func() {
		l.hangUp()
		a.http.CloseIdleConnections()
	})
	return l
}

// order orders a report and returns its job.
func (s *service) order(l *line, order Order) string {
	s.t.Helper()
	var h jobs.Handle
	if _, err := l.call(s.t.Context(), build(order, false), &h); err != nil {
		s.t.Fatal(err)
	}
	return h.JobID
}

func (s *service) ask(l *line, job string) statustool.Report {
	s.t.Helper()
	var got statustool.Report
	if _, err := l.call(s.t.Context(), ask(job), &got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// await asks until the job has the state.
func (s *service) await(l *line, job string, state toolcall.State) (got statustool.Report) {
	s.t.Helper()
	s.eventually("job "+job+" is "+string(state), func() bool {
		got = s.ask(l, job)
		return got.State == state
	})
	return got
}

// eventually finds hangs; it measures nothing.
func (s *service) eventually(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.t.Fatalf("it never came: %s", what)
}

func (s *service) madeAre(want map[string]int) {
	s.t.Helper()
	made, err := s.db.made(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(want, made); diff != "" {
		s.t.Errorf("reports of each order: %s", diff)
	}
}

func north() Order { return Order{Order: "R-7", Region: "north", Year: 2024} }

func TestTools_J01_J05_OrderedOnceAndFollowed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l := s.as(demoToken)
	job := s.order(l, north())
	var again jobs.Handle
	result, err := s.as(demoToken).call(t.Context(), build(north(), false), &again) // on another session
	if err != nil || again.JobID != job || result.Meta[mcpidem.MetaReplayed] != true {
		t.Errorf("the same call again: %+v, %v; want job %s, replayed", again, err, job)
	}
	if got := s.ask(l, job); got.State != toolcall.StateQueued || !strings.Contains(got.Next, "waits for a worker") {
		t.Errorf("without a worker: %+v", got)
	}
	s.quick()
	got := s.await(l, job, toolcall.StateSucceeded)
	var cents int64
	if err := s.db.QueryRow(t.Context(), `select sum(cents)::bigint from sales where region = 'north' and extract(year from day) = 2024`).Scan(&cents); err != nil {
		t.Fatal(err)
	}
	if r := reportIn(got); r.Order != "R-7" || r.Cents != cents || r.MadeBy != "quick" || r.BestMonth == "" {
		t.Errorf("%+v, report %+v; want %d cents", got, r, cents)
	}
	s.madeAre(map[string]int{"R-7": 1})
}

func TestTools_J05_ProgressIsShown(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l := s.as(demoToken)
	s.slow()
	job := s.order(l, north())
	var got statustool.Report
	s.eventually("a report of progress", func() bool {
		got = s.ask(l, job)
		return got.Progress != nil
	})
	if got.State != toolcall.StateRunning || got.Progress.Message != "slow: January" || got.Attempts != 1 {
		t.Errorf("%+v", got)
	}
	s.madeAre(map[string]int{})
}

// TestTools_S02_LostAnswerIsAskedFor: who has lost the answer gets it by the key, without another call.
func TestTools_S02_LostAnswerIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l := s.as(demoToken)
	job := s.order(l, north())
	var got statustool.Report
	var h jobs.Handle
	lost := mcp.CallToolParams{Name: toolStatus, Arguments: map[string]any{"tool": toolBuild, "idempotency_key": north().Order}}
	if _, err := l.call(t.Context(), call{lost, false}, &got); err != nil || json.Unmarshal(got.Result, &h) != nil || h.JobID != job {
		t.Errorf("%v, %+v; want job %s", err, got, job)
	}
}

// TestTools_J07_S05_Cancel: by who has ordered the report, and nobody else.
func TestTools_J07_S05_Cancel(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l := s.as(demoToken)
	job := s.order(l, north())
	for _, c := range []struct {
		by        *line
		hears, is toolcall.State
	}{
		{s.as(otherToken), toolcall.StateNone, toolcall.StateQueued},
		{l, toolcall.StateCancelled, toolcall.StateCancelled},
	} {
		var got statustool.Report
		cancel := mcp.CallToolParams{Name: toolCancel, Arguments: map[string]any{"id": job}}
		if _, err := c.by.call(t.Context(), call{cancel, false}, &got); err != nil || got.State != c.hears || s.ask(l, job).State != c.is {
			t.Errorf("%v, %+v; want %s, and the job to be %s", err, got, c.hears, c.is)
		}
	}
}

// TestTools_S05_OnlyTheCallersJobs: an id that is somebody else's looks like one that is nobody's.
func TestTools_S05_OnlyTheCallersJobs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	job := s.order(s.as(demoToken), north())
	other, nobodys := s.as(otherToken), job[:len(job)-1]+"0"
	if nobodys == job {
		nobodys = job[:len(job)-1] + "1"
	}
	got, want := s.ask(other, job), s.ask(other, nobodys)
	if want.ID = job; got.State != toolcall.StateNone || !reflect.DeepEqual(got, want) {
		t.Errorf("of another's job %+v, of nobody's %+v", got, want)
	}
	if own := s.order(other, north()); own == job {
		t.Error("the same key of another caller is the same job")
	}
}

func TestTools_WhatNobodyCouldDoIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for i, c := range []struct {
		order Order
		says  string
	}{
		{Order{Order: "", Region: "north", Year: 2024}, "no_order"},
		{Order{Order: "R-1", Region: "up", Year: 2024}, "unknown_region"},
		{Order{Order: "R-2", Region: "north", Year: 1999}, "unknown_year"},
	} {
		wanted := build(c.order, false)
		if c.order.Order == "" {
			wanted.Meta[mcpidem.MetaKey] = "k"
		}
		var h jobs.Handle
		if _, err := s.as(demoToken).call(t.Context(), wanted, &h); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d: %v, want %q in it", i, err, c.says)
		}
	}
	if n, err := s.db.jobs(t.Context()); n != 0 || err != nil {
		t.Errorf("%d jobs, %v", n, err)
	}
}
