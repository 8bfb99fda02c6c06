package pgturns

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
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
	claimSQL  = "select pg_try_advisory_xact_lock($1), " + ClaimText + ", $2, true)"
	recordSQL = `insert into "any schema` + RecordText + "fingerprint) values ($1)"
)

// connected is a scanner behind the first packet, with all statements prepared.
func connected(t *testing.T) *Scanner {
	t.Helper()
	s := &Scanner{}
	s.Turn(encode(t, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30}))
	var all []message
	for name, sql := range map[string]string{
		"begin": "begin", "claim": claimSQL, "read": "select 1 from txonce.call", "record": recordSQL, "commit": "commit",
		"insert": "insert into effect default values", "ping": "-- ping",
	} {
		all = append(all, preparing(name, sql)...)
	}
	if got := s.Turn(encode(t, append(all, &pgproto3.Sync{})...)); got.Executes() {
		t.Errorf("preparing is taken for %+v", got)
	}
	return s
}

func join(all ...[]message) []message {
	var joined []message
	for _, messages := range all {
		joined = append(joined, messages...)
	}
	return joined
}

func TestScanner_KnowsTheTurns(t *testing.T) {
	t.Parallel()
	unnamed := func(sql string) []message { return join(preparing("", sql), executing("")) }
	simple := func(sql string) []message { return []message{&pgproto3.Query{String: sql}} }
	for name, c := range map[string]struct {
		messages                           []message
		executes, claims, records, commits bool
	}{
		"a claim":                      {join(executing("begin"), executing("claim"), executing("read")), true, true, false, false},
		"a claim above read committed": {join(executing("read"), executing("commit"), executing("begin"), executing("claim")), true, true, false, true},
		"a claim unprepared":           {join(unnamed("begin"), unnamed(claimSQL)), true, true, false, false},
		"a claim in simple protocol":   {simple("begin;" + claimSQL + ";select 1"), true, true, false, false},
		"a statement":                  {executing("insert"), true, false, false, false},
		"a simple query":               {simple("rollback"), true, false, false, false},
		"a commit by hand":             {simple(" COMMIT ; "), true, false, false, true},
		"the record and commit":        {join(executing("insert"), executing("record"), executing("commit")), true, false, true, true},
		"the same unprepared":          {join(unnamed(recordSQL), unnamed("commit")), true, false, true, true},
		"the same in simple protocol":  {simple(recordSQL + ";commit;"), true, false, true, true},
		"the record alone":             {executing("record"), true, false, true, false},
		"a whole batch": {
			join(executing("begin"), executing("claim"), executing("insert"), executing("record"), executing("commit")), true, true, true, true,
		},
		"a ping":           {executing("ping"), false, false, false, false},
		"an empty query":   {simple(""), false, false, false, false},
		"rows of CopyFrom": {[]message{&pgproto3.CopyData{Data: []byte("commit")}}, false, false, false, false},
		"nothing":          {nil, false, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := encode(t, append(c.messages, &pgproto3.Sync{})...)
			got := connected(t).Turn(b)
			if got.Executes() != c.executes || got.Claims() != c.claims || got.Records() != c.records || got.Commits != c.commits {
				t.Errorf("got %+v", got)
			}
			if kind := b[got.CommitAt]; c.commits && kind != 'B' && kind != 'Q' {
				t.Errorf("COMMIT is said to begin with %q", kind)
			}
		})
	}
}

func TestScanner_SaysWhereTheLastCommitBegins(t *testing.T) {
	t.Parallel()
	front := join(executing("read"), executing("commit"), executing("insert"))
	b := encode(t, append(append(front, executing("commit")...), &pgproto3.Sync{})...)
	if got, want := connected(t).Turn(b).CommitAt, len(encode(t, front...)); got != want {
		t.Errorf("COMMIT begins at %d, want %d", got, want)
	}
}

func TestScanner_SaysWhereEachStatementBegins(t *testing.T) {
	t.Parallel()
	b := encode(t, join(executing("read"), executing("insert"), executing("commit"), []message{&pgproto3.Sync{}})...)
	got := connected(t).Turn(b)
	want := []int{0, len(encode(t, executing("read")...)), len(encode(t, join(executing("read"), executing("insert"))...))}
	if !slices.Equal(got.At, want) || got.Find("insert into effect") != 1 || got.Find("nothing") != -1 {
		t.Errorf("got %+v, want the statements at %v", got, want)
	}
}

func TestScanner_SurvivesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"a bad length":   {'Q', 0, 0, 0, 3, 0},
		"a huge length":  {'Q', 255, 255, 255, 255, 0},
		"half a message": encode(t, &pgproto3.Query{String: "commit"})[:8],
		"no text":        {'B', 0, 0, 0, 4},
	} {
		if got := connected(t).Turn(b); got.Executes() {
			t.Errorf("%s is taken for %+v", name, got)
		}
	}
}

func TestTurn_Is(t *testing.T) {
	t.Parallel()
	b := encode(t, &pgproto3.Query{String: "Rollback"})
	got := connected(t).Turn(b)
	if !got.Is("rollback") || got.Is("roll") || !got.Has("Roll") || got.Has("roll") {
		t.Errorf("got %+v", got)
	}
}
