package main

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHistogram_IsExactToHalfAPerCent(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var h histogram
	if got := h.quantile(1, 2); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(float64(time.Microsecond) * math.Exp(16*rng.Float64())) // up to nine seconds
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, per1000 := range []int{0, 10, 500, 990, 999} {
		want := float64(all[len(all)*per1000/1000])
		if got := float64(h.quantile(per1000, 1000)); math.Abs(got/want-1) > 0.006 {
			t.Errorf("quantile %d/1000: %v, want %v", per1000, got, want)
		}
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	m := newMeter(&out, "1e7", 1000)
	m.at(100)
	if out.String() != "" {
		t.Errorf("after no time: %q", out.String())
	}
	long := time.Now().Add(-20 * time.Second)
	m.began, m.shown = long, long
	m.at(250)
	m.at(300)
	m.at(1000)
	form := regexp.MustCompile(`^growth: 1e7: 250 of 1000 \(25 %\), 1\d a second, 1m\ds to go\ngrowth: 1e7: 1000 of 1000 \(100 %\), \d+ a second\n$`)
	if !form.MatchString(out.String()) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestSpace_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if need := needed(11_000_000, 440); need < 8e9 || need > 20e9 {
		t.Errorf("10^7 records need %s", gigabytes(need))
	}
	if err := enough(2e9, 2e9, "there"); err != nil {
		t.Error(err)
	}
	err := enough(13e9, 5e9, "there")
	for _, word := range []string{"5.0 GB", "13.0 GB", "there", "TMPDIR", "-sizes"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
}

func TestParseGrowth(t *testing.T) {
	t.Parallel()
	o, err := parseGrowth(nil, io.Discard)
	if err != nil || !slices.Equal(o.sizes, []int{1e4, 1e6, 1e7}) || o.time != time.Minute || o.expire != 200_000 || o.workers != 1 {
		t.Errorf("by default %+v, %v", o, err)
	}
	o, err = parseGrowth([]string{"-sizes", "1e5, 200", "-time", "2s", "-workers", "4", "-expire", "7"}, io.Discard)
	if err != nil || !slices.Equal(o.sizes, []int{200, 1e5}) || o.time != 2*time.Second || o.expire != 7 || o.workers != 4 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{
		{"-sizes", "1e4"},
		{"-sizes", "1e4,1e4"},
		{"-sizes", "1e3,1e4,1e4"},
		{"-sizes", "99,1e4"},
		{"-sizes", "1e4,1e10"},
		{"-sizes", "100.5,1e4"},
		{"-sizes", "many,1e4"},
		{"-sizes", "nan,1e4"},
		{"-sizes", ""},
		{"-time", "0"},
		{"-workers", "0"},
		{"-workers", "65"},
		{"-expire", "0"},
		{"more"},
		{"-what"},
	} {
		if _, err := parseGrowth(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestCommand_ExitStatus(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want int
		says string
	}{
		{t.Context(), []string{"growth", "-h"}, exitGood, "-sizes"},
		{t.Context(), []string{"growth", "-rounds", "3"}, exitUsage, "-rounds"},
		{t.Context(), []string{"-sizes", "1e4"}, exitUsage, "-sizes"},
		{t.Context(), []string{"-h"}, exitGood, "-rounds"},
		{interrupted, []string{"growth", "-quick"}, exitInterrupted, "growth: interrupted"},
		{interrupted, []string{"-quick"}, exitInterrupted, "bench: interrupted"},
	} {
		var says strings.Builder
		if got := command(c.ctx, c.args, io.Discard, &says); got != c.want || !strings.Contains(says.String(), c.says) {
			t.Errorf("%q: status %d, want %d; it says\n%s", c.args, got, c.want, says.String())
		}
	}
}
