package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/txonce/txonce/internal/pgturns"
)

// message is one of the client's.
type message interface{ Encode([]byte) ([]byte, error) }

func encode(t *testing.T, messages ...message) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// executing is what pgx sends to execute a statement by its name.
func executing(name string) []message {
	return []message{&pgproto3.Bind{PreparedStatement: name}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}}
}

// preparing is what pgx sends to prepare a statement.
func preparing(name, sql string) []message {
	return []message{&pgproto3.Parse{Name: name, Query: sql}, &pgproto3.Describe{ObjectType: 'S', Name: name}}
}

const (
	claimSQL  = "select pg_try_advisory_xact_lock($1), " + pgturns.ClaimText + ", $2, true)"
	recordSQL = `insert into "txonce` + pgturns.RecordText + "fingerprint) values ($1)"
)

// connected is a scanner behind the first packet, with all statements prepared.
func connected(t *testing.T) *pgturns.Scanner {
	t.Helper()
	s := &pgturns.Scanner{}
	s.Turn(encode(t, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30}))
	var all []message
	for name, sql := range map[string]string{
		"begin": "begin", "claim": claimSQL, "read": "select 1 from txonce.call", "record": recordSQL, "commit": "commit",
		"insert": sqlEffect, "sleep": "select pg_sleep(1)",
	} {
		all = append(all, preparing(name, sql)...)
	}
	if got := turnOf(s.Turn(encode(t, append(all, &pgproto3.Sync{})...))); got != (turn{}) {
		t.Errorf("preparing is taken for %+v", got)
	}
	return s
}

func TestTurn_KindsOfAWorkersTurns(t *testing.T) {
	t.Parallel()
	unnamed := func(sql string) []message { return append(preparing("", sql), executing("")...) }
	for name, c := range map[string]struct {
		messages []message
		kind     turnKind
		commits  bool
	}{
		"turn 1": {append(append(executing("begin"), executing("claim")...), executing("read")...), claimTurn, false},
		"turn 1 above read committed": {
			append(append(append(executing("read"), executing("commit")...), executing("begin")...), executing("claim")...), claimTurn, true,
		},
		"turn 1 unprepared": {append(unnamed("begin"), unnamed(claimSQL)...), claimTurn, false},
		"a statement":       {executing("insert"), statementTurn, false},
		"a slow statement":  {executing("sleep"), slowTurn, false},
		"a simple query":    {[]message{&pgproto3.Query{String: "rollback"}}, statementTurn, false},
		"the last batch":    {append(executing("record"), executing("commit")...), finishTurn, true},
		"the last batch behind a queued statement": {
			append(append(executing("sleep"), executing("record")...), executing("commit")...), finishTurn, true,
		},
		"the last batch unprepared": {append(unnamed(recordSQL), unnamed("commit")...), finishTurn, true},
		"nothing":                   {nil, otherTurn, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := encode(t, append(c.messages, &pgproto3.Sync{})...)
			got := turnOf(connected(t).Turn(b))
			if got.kind != c.kind || (got.commit > 0) != c.commits {
				t.Errorf("got %+v, want kind %d, commits %v", got, c.kind, c.commits)
			}
			if c.commits && b[got.commit] != 'B' {
				t.Errorf("COMMIT is said to begin with %q", b[got.commit])
			}
		})
	}
}

// TestReaper_DiesWhereItIsTold: how much of a turn goes out, and that the mark proves the point.
func TestReaper_DiesWhereItIsTold(t *testing.T) {
	t.Parallel()
	for _, s := range steps() {
		for _, p := range s.points() {
			t.Run(string(p), func(t *testing.T) {
				t.Parallel()
				var marks, server, stdout bytes.Buffer
				r := newReaper(&death{Step: s, Point: p, After: 1, Part: 0.99}, &marks)
				died := make(chan bool, 1)
				r.kill = func() {
					died <- true
					runtime.Goexit()
				}
				finish := append(executing("record"), executing("commit")...)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					r.begin(0, 6)
					aCall(t, r, connected(t), &server, &stdout, finish)
					server.Reset()
					stdout.Reset()
					r.begin(1, 7)
					aCall(t, r, connected(t), &server, &stdout, finish)
				}()
				<-ended
				if len(died) != 1 {
					t.Fatal("it did not die")
				}
				var m mark
				if err := json.Unmarshal(marks.Bytes(), &m); err != nil {
					t.Fatal(err)
				}
				if !m.proven() || m.Step != s || m.Point != p || m.Intent != 7 {
					t.Errorf("the mark %+v is no proof of %s in intent 7", m, p)
				}
				if committed := bytes.Contains(server.Bytes(), encode(t, executing("commit")[0])); committed == m.beforeCommit() {
					t.Errorf("COMMIT was written: %v", committed)
				}
				if bytes.Contains(stdout.Bytes(), []byte{'\n'}) {
					t.Errorf("the answer was told: %q", stdout.String())
				}
			})
		}
	}
}

// aCall is what a protected call looks like to the reaper.
func aCall(t *testing.T, r *reaper, s *pgturns.Scanner, server, stdout *bytes.Buffer, finish []message) {
	send := func(messages ...message) {
		b := encode(t, append(messages, &pgproto3.Sync{})...)
		if _, err := r.write(server, turnOf(s.Turn(b)), b); err != nil {
			t.Error(err)
		}
		r.read(10)
	}
	send(executing("claim")...)
	r.handling(made)
	send(executing("insert")...)
	r.between()
	if r.wants(inStatement) {
		send(executing("sleep")...)
	}
	r.handled()
	send(finish...)
	if err := r.tell(stdout, []byte(`{"Class":"done"}`+"\n"), true); err != nil {
		t.Error(err)
	}
}
