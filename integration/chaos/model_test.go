package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// at makes an operation of intent 0 that began and returned at these moments.
func at(call, until int, a asked, s said) op {
	return op{Agent: a.Try, Call: time.Duration(call), Return: time.Duration(until), Asked: a, Said: s}
}

func try(n int) asked      { return asked{Payload: rightPayload, Try: n} }
func other(n int) asked    { return asked{Payload: otherPayload, Try: n} }
func breaking(n int) asked { return asked{Payload: rightPayload, Try: n, Breaks: true} }

var question = asked{Question: true}

// by is the answer of a try, and again a replay of it.
func by(n int) said { return said{Kind: succeeded, Try: n, Text: "done"} }

func again(n int) said {
	s := by(n)
	s.Replayed = true
	return s
}

func refusedBy(n int) said { return said{Kind: failed, Try: n, Text: "refused"} }

func (s said) as(text string) said { s.Text = text; return s }

func heard(k kind) said { return said{Kind: k} }

// TestModel_R19_ExplainsWhatIsPromised: each of these histories keeps the promise.
func TestModel_R19_ExplainsWhatIsPromised(t *testing.T) {
	t.Parallel()
	for name, ops := range map[string][]op{
		"a call and its replays":                           {at(0, 9, try(1), by(1)), at(10, 19, try(2), again(1)), at(20, 29, try(3), again(1))},
		"the first one to commit answers":                  {at(0, 9, try(1), again(2)), at(1, 8, try(2), by(2))},
		"a lost call that was done":                        {at(0, 9, try(1), heard(unknown)), at(10, 19, try(2), again(1))},
		"a lost call that was done later":                  {at(0, 9, try(1), heard(unknown)), at(10, 19, try(2), heard(inProgress)), at(20, 29, try(3), again(1))},
		"a lost call that was not done":                    {at(0, 9, try(1), heard(unknown)), at(10, 19, try(2), by(2)), at(20, 29, try(3), again(2))},
		"two lost calls, of which the second was done":     {at(0, 9, try(1), heard(unknown)), at(0, 9, try(2), heard(unknown)), at(20, 29, try(3), again(2))},
		"in progress before the answer":                    {at(0, 19, try(1), by(1)), at(5, 9, try(2), heard(inProgress))},
		"in progress that was decided before the commit":   {at(0, 9, try(1), by(1)), at(5, 99, try(2), heard(inProgress))},
		"other arguments, in progress and then a mismatch": {at(0, 19, try(1), by(1)), at(5, 9, other(2), heard(inProgress)), at(20, 29, other(3), heard(mismatch))},
		"other arguments that came first":                  {at(0, 9, other(1), by(1)), at(10, 19, try(2), heard(mismatch)), at(20, 29, other(3), again(1))},
		"a handler that breaks, and then the call":         {at(0, 9, breaking(1), heard(broke)), at(10, 19, try(2), by(2))},
		"a failure and its replay":                         {at(0, 9, try(1), refusedBy(1)), at(10, 19, try(2), said{Kind: failed, Try: 1, Text: "refused", Replayed: true})},
		"no database, before and behind":                   {at(0, 9, try(1), heard(nothing)), at(10, 19, try(2), by(2)), at(20, 29, try(3), heard(nothing))},
		"a fault, before and behind":                       {at(0, 9, try(1), heard(fault)), at(10, 19, try(2), by(2)), at(20, 29, try(3), heard(fault))},
		"questions before and behind":                      {at(0, 5, question, heard(notEnded)), at(1, 9, try(1), by(1)), at(10, 19, question, by(1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := check(ops, ""); got.result != porcupine.Ok || len(got.wrong) > 0 || got.operations != len(ops) {
				t.Errorf("check: %+v; want Ok", got)
			}
		})
	}
}

// TestModel_R19_FindsWhatBreaksThePromise: each of these histories does not.
func TestModel_R19_FindsWhatBreaksThePromise(t *testing.T) {
	t.Parallel()
	for name, ops := range map[string][]op{
		"two tries are done":                       {at(0, 9, try(1), by(1)), at(10, 19, try(2), by(2))},
		"two tries are done at a time":             {at(0, 9, try(1), by(1)), at(0, 9, try(2), by(2))},
		"a replay of nothing":                      {at(0, 9, try(1), heard(nothing)), at(10, 19, try(2), again(1))},
		"a replay with other bytes":                {at(0, 9, try(1), by(1)), at(10, 19, try(2), again(1).as("other"))},
		"two replays of a lost call that differ":   {at(0, 9, try(1), heard(unknown)), at(10, 19, try(2), again(1)), at(20, 29, try(3), again(1).as("other"))},
		"a replay of another try":                  {at(0, 9, try(1), by(1)), at(0, 9, try(2), heard(unknown)), at(10, 19, try(3), again(2))},
		"a replay before the call":                 {at(0, 9, try(2), again(1)), at(10, 19, try(1), by(1))},
		"an answer for other arguments":            {at(0, 9, try(1), by(1)), at(10, 19, other(2), again(1))},
		"other arguments run":                      {at(0, 9, try(1), by(1)), at(10, 19, other(2), by(2))},
		"a mismatch with nothing":                  {at(0, 9, other(1), heard(mismatch)), at(10, 19, try(2), by(2))},
		"a mismatch with the same arguments":       {at(0, 9, try(1), by(1)), at(10, 19, try(2), heard(mismatch))},
		"in progress behind the answer":            {at(0, 9, try(1), by(1)), at(10, 19, try(2), heard(inProgress))},
		"in progress instead of a mismatch":        {at(0, 9, try(1), by(1)), at(10, 19, other(2), heard(inProgress))},
		"in progress, and nobody else has called":  {at(0, 9, try(1), heard(inProgress)), at(10, 19, try(2), by(2))},
		"a handler runs behind the answer":         {at(0, 9, try(1), by(1)), at(10, 19, breaking(2), heard(broke))},
		"a try that broke is the answer":           {at(0, 9, breaking(1), heard(broke)), at(10, 19, try(2), again(1))},
		"a try that should break is done":          {at(0, 9, breaking(1), by(1))},
		"a lost try that should break is done":     {at(0, 9, breaking(1), heard(unknown)), at(10, 19, try(2), again(1))},
		"a try that found no database is done":     {at(0, 9, try(1), heard(nothing)), at(10, 19, try(2), heard(unknown)), at(20, 29, question, by(1))},
		"a try with a fault is done":               {at(0, 9, try(1), heard(fault)), at(10, 19, try(2), again(1))},
		"a failure becomes a success":              {at(0, 9, try(1), refusedBy(1)), at(10, 19, try(2), said{Kind: succeeded, Try: 1, Text: "refused", Replayed: true})},
		"no record, said behind the answer":        {at(0, 9, try(1), by(1)), at(10, 19, question, heard(notEnded))},
		"a status with another answer":             {at(0, 9, try(1), by(1)), at(10, 19, question, by(1).as("other"))},
		"a status that nobody has brought about":   {at(0, 9, question, by(1)), at(10, 19, try(1), by(1))},
		"a strange answer":                         {at(0, 9, try(1), heard(strange))},
		"an answer that names another try as this": {at(0, 9, try(1), by(2))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := check(ops, ""); got.result != porcupine.Illegal || len(got.wrong) != 1 {
				t.Errorf("check: %+v; want Illegal, and intent 0", got)
			}
		})
	}
}

// TestCheck_R19_ManyLostCalls: the search is quick where nobody knows of many calls whether they were done.
func TestCheck_R19_ManyLostCalls(t *testing.T) {
	t.Parallel()
	var ops []op
	for n := range 20 {
		ops = append(ops, at(n, 100, try(1+n), heard(unknown)), at(100+10*n, 125+10*n, try(100+n), heard(inProgress)))
	}
	ops = append(ops, at(400, 410, try(200), again(7)))
	if got := check(ops, ""); got.result != porcupine.Ok {
		t.Errorf("check: %+v; want Ok", got)
	}
}

// TestCheck_R19_Pictures: what cannot be explained is drawn.
func TestCheck_R19_Pictures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "pictures")
	check([]op{at(0, 9, try(1), by(1)), at(10, 19, try(2), by(2))}, folder)
	if info, err := os.Stat(filepath.Join(folder, "chaos-intent-0.html")); err != nil || info.Size() == 0 {
		t.Errorf("no picture: %v", err)
	}
}
