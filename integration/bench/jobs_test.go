package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
)

// A whole run, a quick one. It counts jobs and effects itself, so that it ends without an error says that each job had its
// effect on both sides, and each call that submits left its job.
func TestJobs_Q01_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	o, err := parseJobs([]string{"-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.url = dbtest.URL(t)
	var out, progress bytes.Buffer
	if err := runJobs(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	form := regexp.MustCompile(`^bench-jobs: tput=\d+\.\d\d submit_p50_ms=\d+\.\d\d pickup_p50_ms=-?\d+\.\d\d$`)
	if last := lines[len(lines)-1]; !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	if n := strings.Count(progress.String(), "round 1 of 1: "); n != len(workerCounts())+1+2 {
		t.Errorf("progress is:\n%s", progress.String())
	}
	var left int
	err = dbtest.PoolAt(t, o.url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_bench%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

func TestParseJobs(t *testing.T) {
	t.Parallel()
	if o, err := parseJobs(nil, io.Discard); err != nil || o.rounds < 5 {
		t.Errorf("by default %+v, %v; medians need 5 rounds", o, err)
	}
	if o, err := parseJobs([]string{"-rounds", "7", "-time", "300ms"}, io.Discard); err != nil || o.rounds != 7 || o.time != 300*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-time", "0"}, {"-time", "-1s"}, {"more"}, {"-what"}} {
		if _, err := parseJobs(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// jobsFixture is a database with both sides at work.
func jobsFixture(t *testing.T) *jobsBench {
	t.Helper()
	db, err := openDatabase(t.Context(), dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	j := newJobsBench(db, jobsOptions{rounds: 1, time: 50 * time.Millisecond}, io.Discard)
	end := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := errors.Join(j.closeSides(end), db.close(end)); err != nil {
			t.Error(err)
		}
	})
	if err := j.openSides(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j
}

// A side whose jobs have no effect, or two, must not get into the table.
func TestJobs_Q01_FailsWhenASideLies(t *testing.T) {
	t.Parallel()
	j := jobsFixture(t)
	c := jobsCell{plainRiver, mostWorkers}
	if err := j.sampleRate(t.Context(), c, j.options.time); err != nil {
		t.Fatal(err)
	}
	if _, err := j.one(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), j.pool(), func(tx pgx.Tx) error {
		_, err := j.link.effect(t.Context(), tx, "one too many")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.settle(t.Context(), j.sides[plainRiver], 1); err == nil || !strings.Contains(err.Error(), "should have left") {
		t.Errorf("got %v", err)
	}
}

// The times of one job are one behind the other, and add up.
func TestJobs_Q01_TimesAddUp(t *testing.T) {
	t.Parallel()
	j := jobsFixture(t)
	for side, s := range j.sides {
		got, err := j.one(t.Context(), jobsCell{side, 1})
		if err != nil {
			t.Fatal(err)
		}
		if got.submit <= 0 || got.work <= 0 || got.submit+got.pickup+got.work != got.done {
			t.Errorf("%s: %+v", s.name, got)
		}
	}
}
