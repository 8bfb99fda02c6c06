package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
)

// name is the name of a message of an intent.
func name(intent, n int) string { return fmt.Sprintf("%d/run/%d", intent, n) }

// mail makes a message of the outbox, and body its body.
func body(intent, n int, lane string) string {
	raw, err := json.Marshal(letter{Name: name(intent, n), Lane: lane})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func arrived(intent, n int, lane string, a act) arrival {
	return arrival{ID: "id " + name(intent, n), Key: "key " + name(intent, n), Name: name(intent, n), Lane: lane, Body: body(intent, n, lane), Act: a}
}

func stored(intent, n int, lane string) message {
	return message{ID: "id " + name(intent, n), Key: "key " + name(intent, n), Body: body(intent, n, lane), State: "delivered", Attempts: 1}
}

// theEvidence is of a good run: a call that is done and one that fails, a job that is done and one that fails, and two calls that
// send messages, of which two have one ordering key.
func theEvidence() evidence {
	answer := func(intent int, k kind, job string) op {
		return op{Intent: intent, Asked: try(10 + intent), Said: said{Kind: k, Try: 10 + intent, Run: "run", Job: job}}
	}
	told := func(intent int, k kind) op {
		return op{Intent: intent, Asked: asked{Question: true}, Said: said{Kind: k, Try: 10 + intent}}
	}
	of := func(intent int, by string) effect {
		return effect{Intent: intent, Payload: rightPayload, Try: 10 + intent, By: by}
	}
	return evidence{
		intents: []intent{
			{N: 0, Tool: write},
			{N: 1, Tool: batch, order: order{Fails: true}},
			{N: 2, Tool: report},
			{N: 3, Tool: report, order: order{Fails: true}},
			{N: 4, Tool: notify, order: order{Letters: 2, Lane: "lane"}},
			{N: 5, Tool: notify, order: order{Letters: 1, Lane: "lane"}},
		},
		ops: []op{
			answer(0, succeeded, ""), answer(1, failed, ""), answer(2, succeeded, "job 2"), answer(3, succeeded, "job 3"),
			answer(4, succeeded, ""), answer(5, succeeded, ""),
			told(0, succeeded), told(1, failed), told(2, succeeded), told(3, succeeded), told(4, succeeded), told(5, succeeded),
		},
		jobsSaid: map[string]statustool.Report{
			"job 2": {State: toolcall.StateSucceeded, Result: json.RawMessage(`{"run":"run 2"}`)}, "job 3": {State: toolcall.StateFailed},
		},
		arrivals: []arrival{
			arrived(4, 0, "lane", breaks), arrived(4, 1, "", cuts), arrived(4, 0, "lane", accepts), arrived(4, 1, "", accepts), arrived(5, 0, "lane", accepts),
		},
		books: books{
			effects: []effect{of(0, "run"), of(2, "run 2"), of(4, "run"), of(5, "run")},
			jobs: []job{
				{ID: "job 2", Intent: 2, Try: 12, State: "succeeded", By: "run 2"},
				{ID: "job 3", Intent: 3, Try: 13, State: "failed"},
			},
			ledger: []entry{
				{Name: name(4, 1), Intent: 4, Try: 14},
				{Name: name(4, 0), Intent: 4, Try: 14, Lane: "lane", N: 1},
				{Name: name(5, 0), Intent: 5, Try: 15, Lane: "lane", N: 2},
			},
			messages: []message{stored(4, 0, "lane"), stored(4, 1, ""), stored(5, 0, "lane")},
		},
	}
}

func TestJudge_R02_J09_O01_NothingIsWrong(t *testing.T) {
	t.Parallel()
	got := judge(theEvidence(), opinion{})
	if diff := cmp.Diff(verdict{effects: 4}, got, cmp.AllowUnexported(verdict{})); diff != "" {
		t.Error(diff)
	}
}

func TestJudge_R02_J09_O01_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	duplicates := func(v verdict) int { return v.duplicates }
	lost := func(v verdict) int { return v.lost }
	wrong := func(v verdict) int { return v.wrongAnswers }
	stuck := func(v verdict) int { return v.jobsStuck }
	unsent := func(v verdict) int { return v.messagesLost }
	others := func(v verdict) int { return len(v.complaints) } // in no figure
	for what, c := range map[string]struct {
		change func(*evidence)
		shows  func(verdict) int
		text   string
	}{
		"two effects":                  {func(e *evidence) { e.books.effects = append(e.books.effects, e.books.effects[0]) }, duplicates, "intent 0 (write) has 2 effects"},
		"two effects of a job":         {func(e *evidence) { e.books.effects = append(e.books.effects, e.books.effects[1]) }, duplicates, "intent 2 (report) has 2 effects"},
		"no effect":                    {func(e *evidence) { e.books.effects = e.books.effects[1:] }, lost, "intent 0 (write) was said to be done"},
		"no effect of a job":           {func(e *evidence) { e.books.effects[1] = e.books.effects[0]; e.books.effects[1].Intent = 7 }, lost, "intent 2 (report) was said to be done"},
		"a failure with an effect":     {func(e *evidence) { e.books.effects[0].Intent = 1 }, wrong, "said to have failed"},
		"a failed job with an effect":  {func(e *evidence) { e.books.effects[0].Intent = 3 }, wrong, "said to have failed"},
		"the effect of another try":    {func(e *evidence) { e.books.effects[0].Try = 99 }, wrong, "run run of try 10 was said to have done it"},
		"the effect of another run":    {func(e *evidence) { e.books.effects[0].By = "run 3" }, wrong, "run run of try 10 was said to have done it"},
		"the effect of another job":    {func(e *evidence) { e.books.effects[1].By = "run 3" }, wrong, "run run 2 of try 12 was said to have done it"},
		"the message of another try":   {func(e *evidence) { e.books.ledger[0].Try = 99 }, wrong, "it has the message"},
		"the message of another run":   {func(e *evidence) { e.ops[4].Said.Run = "run 3"; e.books.effects[2].By = "run 3" }, wrong, "it has the message"},
		"the result of another job":    {func(e *evidence) { e.books.jobs[0].By, e.books.effects[1].By = "run 3", "run 3" }, wrong, `by "run 2"`},
		"a success that should fail":   {func(e *evidence) { e.intents[0].Fails = true }, wrong, "it succeeded, and should fail: true"},
		"another job":                  {func(e *evidence) { e.books.jobs[0].ID = "job 9" }, wrong, "said to have job job 2"},
		"no job":                       {func(e *evidence) { e.books.jobs = e.books.jobs[1:] }, wrong, "said to have job job 2"},
		"two jobs":                     {func(e *evidence) { e.books.jobs = append(e.books.jobs, e.books.jobs[0]) }, wrong, "said to have job job 2"},
		"a job without an answer":      {func(e *evidence) { e.ops[2].Said.Kind, e.ops[8].Said.Kind = nothing, nothing }, wrong, "not said to have a job"},
		"a status that is not so":      {func(e *evidence) { e.jobsSaid["job 3"] = e.jobsSaid["job 2"] }, wrong, `was said to be "succeeded", by "run 2"`},
		"a job that has not ended":     {func(e *evidence) { e.books.jobs[0].State = "running" }, stuck, "job job 2 is running in the end"},
		"a job that should fail":       {func(e *evidence) { e.books.jobs[1].State = "succeeded"; e.jobsSaid["job 3"] = e.jobsSaid["job 2"] }, lost, "should fail: true"},
		"no answer":                    {func(e *evidence) { e.ops[0].Said.Kind, e.ops[6].Said.Kind = nothing, nothing }, others, "intent 0 (write) has no answer"},
		"a status that nobody hears":   {func(e *evidence) { e.ops[6].Said.Kind = nothing }, others, "get_status says in the end: nothing"},
		"a status that nobody asks":    {func(e *evidence) { e.ops = e.ops[:11] }, others, "intent 5 (notify) has an answer, and get_status"},
		"a job of a call without":      {func(e *evidence) { e.books.jobs[0].Intent = 0 }, others, "intent 0 (write) has a job"},
		"an effect of nobody":          {func(e *evidence) { e.books.effects = append(e.books.effects, effect{Intent: 99}) }, others, "nobody asked for the effect"},
		"a job of nobody":              {func(e *evidence) { e.books.jobs = append(e.books.jobs, job{Intent: 99}) }, others, "nobody asked for job"},
		"a message that is not there":  {func(e *evidence) { e.books.ledger = e.books.ledger[1:] }, others, "intent 4 has 1 messages, not 2"},
		"a message that was not taken": {func(e *evidence) { e.arrivals[4].Act = breaks }, unsent, "never arrived"},
		"a message that never came":    {func(e *evidence) { e.arrivals = e.arrivals[:4] }, unsent, "never arrived"},
		"a message without an answer":  {func(e *evidence) { e.arrivals[3].Act = cuts }, others, "no delivery of it was answered"},
		"a message that is pending":    {func(e *evidence) { e.books.messages[0].State = "pending" }, others, "is pending in the end"},
		"a message that is twice":      {func(e *evidence) { e.books.messages = append(e.books.messages, e.books.messages[0]) }, others, "is in the outbox twice"},
		"an entry that is twice":       {func(e *evidence) { e.books.ledger = append(e.books.ledger, e.books.ledger[0]) }, others, "is in the ledger twice"},
		"a message of no transaction":  {func(e *evidence) { e.books.messages = append(e.books.messages, stored(6, 0, "")) }, others, "its transaction did not commit"},
		"an arrival of nothing":        {func(e *evidence) { e.arrivals = append(e.arrivals, arrived(6, 0, "", accepts)) }, others, "arrived, and its transaction did not commit"},
		"another id":                   {func(e *evidence) { e.arrivals[1].ID = "id" }, others, "came with another id"},
		"another key":                  {func(e *evidence) { e.arrivals[1].Key = "key" }, others, "came with another id, key"},
		"another body":                 {func(e *evidence) { e.arrivals[1].Body += " " }, others, "key or body"},
		"a message that overtakes":     {func(e *evidence) { e.arrivals[2], e.arrivals[4] = e.arrivals[4], e.arrivals[2] }, others, "arrived before"},
		"one in front not answered":    {func(e *evidence) { e.arrivals[2].Act = cuts }, others, "arrived before"},
		"a place that is left out":     {func(e *evidence) { e.books.ledger[2].N = 3 }, others, "should be 2"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := theEvidence()
			c.change(&e)
			got := judge(e, opinion{})
			if c.shows(got) == 0 || !strings.Contains(strings.Join(got.complaints, "\n"), c.text) {
				t.Errorf("judge: %+v; want %q", got, c.text)
			}
		})
	}
}

// TestJudge_R19_CountsWhatTheCheckerSays: once for each intent.
func TestJudge_R19_CountsWhatTheCheckerSays(t *testing.T) {
	t.Parallel()
	e := theEvidence()
	e.books.effects[0].Try = 99
	got := judge(e, opinion{wrong: map[int]string{0: "no order", 4: "no order"}})
	if got.wrongAnswers != 2 || len(got.complaints) != 3 {
		t.Errorf("judge: %+v; want 2 wrong answers, and why", got)
	}
}
