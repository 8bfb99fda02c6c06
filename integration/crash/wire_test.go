package main

import (
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
	leaseSQL  = `insert into "txonce` + pgturns.RecordText + "fingerprint, leased, lease_until) select $1"
)

// connected is a scanner behind the first packet, with all statements prepared.
func connected(t *testing.T) *pgturns.Scanner {
	t.Helper()
	s := &pgturns.Scanner{}
	s.Turn(encode(t, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30}))
	var all []message
	for name, sql := range map[string]string{
		"begin": "begin", "claim": claimSQL, "read": "select 1 from txonce.call", "record": recordSQL, "commit": "commit",
		"insert": sqlEffect, "sleep": "select pg_sleep(1)", "restore": "select set_config('txonce.attempt', $1::text, true)",
		"lease": leaseSQL, "takeover": "update call set attempt = $2::uuid, fingerprint = $4", "leasedone": "update call set lease_until = null",
		"renew": "select from unnest($1) as l (id, attempt, secs)", "reserve": recordSQL + " returning ctid::text",
		"recordtx": "update call set state = 'succeeded', attempt = current_setting('txonce.attempt')::uuid, answer = $3",
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
	all := func(names ...string) (messages []message) {
		for _, name := range names {
			messages = append(messages, executing(name)...)
		}
		return messages
	}
	for name, c := range map[string]struct {
		messages []message
		kind     turnKind
		commits  bool
	}{
		"turn 1":                      {all("begin", "claim", "read"), claimTurn, false},
		"turn 1 above read committed": {all("read", "commit", "begin", "claim"), claimTurn, true},
		"turn 1 unprepared":           {append(unnamed("begin"), unnamed(claimSQL)...), claimTurn, false},
		"a statement":                 {all("insert"), statementTurn, false},
		"a slow statement":            {all("sleep"), slowTurn, false},
		"a simple query":              {[]message{&pgproto3.Query{String: "rollback"}}, statementTurn, false},
		"the last batch":              {all("record", "commit"), finishTurn, true},
		"the last batch behind a queued statement": {all("sleep", "record", "commit"), finishTurn, true},
		"the last batch unprepared":                {append(unnamed(recordSQL), unnamed("commit")...), finishTurn, true},
		"the record in a caller's transaction":     {all("record", "restore"), finishTurn, false},
		"the same under serializable":              {all("recordtx", "restore"), finishTurn, false},
		"a place under serializable":               {all("reserve"), otherTurn, false},
		"the caller's commit":                      {[]message{&pgproto3.Query{String: "commit"}}, commitTurn, true},
		"a slow one":                               {all("sleep", "commit"), commitTurn, true},
		"a whole batch":                            {all("begin", "claim", "record", "insert", "sleep", "commit"), wholeTurn, true},
		"a lease":                                  {all("begin", "claim", "read", "lease", "commit"), claimTurn, true},
		"a lease taken over":                       {all("begin", "takeover", "commit"), claimTurn, true},
		"a lease renewed":                          {all("renew"), otherTurn, false},
		"a leased record":                          {all("begin", "sleep", "leasedone", "commit"), finishTurn, true},
		"nothing":                                  {nil, otherTurn, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := encode(t, append(c.messages, &pgproto3.Sync{})...)
			got := turnOf(connected(t).Turn(b))
			if got.kind != c.kind || c.commits && got.kind != commitTurn && got.commit == 0 || !c.commits && got.commit > 0 {
				t.Errorf("got %+v, want kind %d, commits %v", got, c.kind, c.commits)
			}
			if c.commits && b[got.commit] != 'B' && b[got.commit] != 'Q' {
				t.Errorf("COMMIT is said to begin with %q", b[got.commit])
			}
			if (got.parts != parts{}) != (c.kind == wholeTurn) {
				t.Errorf("the parts are %+v", got.parts)
			}
		})
	}
}
