package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/devpg"
)

// lastLine is what others read: its form is fixed.
type lastLine struct {
	calls, intents, effects, replays, inProgress, duplicates, lost int
}

func readLastLine(t *testing.T, output string) lastLine {
	t.Helper()
	form := regexp.MustCompile(`^demo: calls=\d+ intents=\d+ effects=\d+ replays=\d+ in_progress=\d+ duplicates=\d+ lost=\d+$`)
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	last := lines[len(lines)-1]
	if !form.MatchString(last) {
		t.Fatalf("the last line is %q", last)
	}
	var l lastLine
	_, err := fmt.Sscanf(last, "demo: calls=%d intents=%d effects=%d replays=%d in_progress=%d duplicates=%d lost=%d",
		&l.calls, &l.intents, &l.effects, &l.replays, &l.inProgress, &l.duplicates, &l.lost)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// readNotices reads the line in front of it.
func readNotices(t *testing.T, output string) (n notices) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	_, err := fmt.Sscanf(lines[max(0, len(lines)-2)], "demo: webhooks=%d attempts=%d accepted=%d duplicates=%d lost=%d",
		&n.webhooks, &n.attempts, &n.accepted, &n.duplicates, &n.lost)
	if err != nil {
		t.Fatalf("the last line but one: %v\n%s", err, output)
	}
	return n
}

// TestDemonstrate_Protected also shows that two demos do not meet on one server, and leave nothing in it.
func TestDemonstrate_Protected(t *testing.T) {
	t.Parallel()
	pg, err := devpg.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range []uint64{1, 2} {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				checkProtected(t, pg, seed)
			})
		}
	})
	if pg.PID() == 0 {
		return // others use this server, too
	}
	if left := schemasIn(t, pg.URL()); left != 0 {
		t.Errorf("%d schemas are left", left)
	}
}

func checkProtected(t *testing.T, pg *devpg.Server, seed uint64) {
	var stdout, stderr bytes.Buffer
	good, err := demonstrate(t.Context(), options{seed: seed}, pg, &stdout, &stderr)
	if err != nil || !good {
		t.Errorf("good %v, error %v; stdout:\n%s", good, err, &stdout)
	}
	l := readLastLine(t, stdout.String())
	if l.duplicates != 0 || l.lost != 0 || l.intents != intentCount || l.effects != intentCount-failingCount ||
		l.calls < leastCalls || l.replays < leastReplays || l.inProgress < leastInProgress {
		t.Errorf("figures: %+v", l)
	}
	if n := readNotices(t, stdout.String()); n.webhooks == 0 || n.accepted != n.webhooks || n.attempts <= n.webhooks || n.duplicates != 0 || n.lost != 0 {
		t.Errorf("webhooks: %+v", n)
	}
	if want := fmt.Sprintf("make demo SEED=%d\n", seed); !strings.Contains(stdout.String(), want) {
		t.Errorf("the output does not say how to repeat it: %q", want)
	}
	if !tellsOfJobs(stdout.String(), true) {
		t.Errorf("the output tells no story of a job, or of other than one job for a statement:\n%s", &stdout)
	}
	if story := regexp.MustCompile(`What happened to one intent: .*\n(.*\n)+? +\d+ +asks +.* the call: succeeded +1\n(.*\n)+?  get_status answered call \d+: The call was done, once\.`); !story.MatchString(stdout.String()) {
		t.Errorf("the output tells no story of a lost answer that was asked for:\n%s", &stdout)
	}
	if strings.Contains(stderr.String(), "quickstart:") {
		t.Error(stderr.String())
	}
}

// TestAwaitRest_O01_WaitsForMessages: the demo counts what the merchant took when nothing is on its way any more.
func TestAwaitRest_O01_WaitsForMessages(t *testing.T) {
	t.Parallel()
	pg, err := devpg.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	name := fmt.Sprintf("txonce_rest_%08x", rand.Uint32())
	db, err := openDatabase(t.Context(), pg.URL(), schemas{app: name, txonce: name + "_records"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	m, err := openMerchant(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	box, err := newOutbox(db, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	order := 1
	for troubleFor(1, fmt.Sprint(order), 1) != cutsBefore || troubleFor(1, fmt.Sprint(order), 2) != failsBefore {
		order++ // one that is taken at its third attempt
	}
	err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		return publish(box)(t.Context(), tx, RefundNotice{OrderID: fmt.Sprint(order)})
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := keepRunning(t.Context(), box.Run)
	rest := &shop{jobs: place{db.schemas.txonce + ".job", "finished_at"}, unsent: db.schemas.txonce + ".message_pending"}
	_, err = (&show{db: db}).awaitRest(t.Context(), rest)
	n := m.noticesOf(map[string]int{fmt.Sprint(order): 1})
	if err = errors.Join(err, stop(), db.drop(t.Context())); err != nil || n.accepted != 1 || n.lost != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

// tellsOfJobs looks for the story of a job that was asked for, and for how many jobs there were: one for each statement, or
// more.
func tellsOfJobs(output string, one bool) bool {
	story := regexp.MustCompile(`too slow to be waited for: build_statement .*\n(.*\n)+ +\d+ +asks +.*job \S+ succeeded +1\n`)
	if !one {
		story = regexp.MustCompile(`too slow to be waited for: build_statement `)
	}
	counts := regexp.MustCompile(`\n  (\d+) jobs were submitted, for (\d+) statements\.\n`).FindStringSubmatch(output)
	if counts == nil || !story.MatchString(output) {
		return false
	}
	jobs, _ := strconv.Atoi(counts[1])
	statements, _ := strconv.Atoi(counts[2])
	return statements > 0 && (jobs == statements) == one && jobs >= statements
}

func schemasIn(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRun_Unprotected(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), options{seed: 1, unprotected: true}, &stdout, &stderr); code != exitBad {
		t.Errorf("exit status %d, want %d; stderr:\n%s", code, exitBad, &stderr)
	}
	if !tellsOfJobs(stdout.String(), false) {
		t.Errorf("the output tells no story of a job, or of no more jobs than statements:\n%s", &stdout)
	}
	l := readLastLine(t, stdout.String())
	if n := readNotices(t, stdout.String()); n.duplicates == 0 {
		t.Errorf("webhooks: %+v", n)
	}
	if l.duplicates == 0 || l.replays != 0 || l.effects <= intentCount-failingCount {
		t.Errorf("figures: %+v", l)
	}
}
