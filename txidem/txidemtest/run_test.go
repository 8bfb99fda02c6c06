package txidemtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/txidem/txidemtest"
)

// envURL lets TestRun_OfASwallowingTool run, in a process of its own that is to fail.
const envURL = "TXIDEMTEST_TEST_URL"

func TestRun_OfASwallowingTool(t *testing.T) {
	if os.Getenv(envURL) == "" {
		t.Skip("TestRun_R02_AFaultFailsItsSubtest runs it")
	}
	txidemtest.Run(t, func() string { return os.Getenv(envURL) }, txidemtest.Tool{Call: calls(swallows), Effects: sqlCount})
}

func TestRun_R02_AFaultFailsItsSubtest(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRun_OfASwallowingTool$", "-test.v")
	cmd.Env = append(os.Environ(), envURL+"="+database(t))
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Errorf("a bad tool passes: %v", err)
	}
	for _, want := range []string{
		"--- FAIL: TestRun_OfASwallowingTool (", "--- FAIL: TestRun_OfASwallowingTool/statement_1_refused_with_53100",
		"txidemtest: statement 1 refused with 53100: the handler swallowed", "--- PASS: TestRun_OfASwallowingTool/two_calls_in_a_row",
		"--- PASS: TestRun_OfASwallowingTool/process_killed_inside_the_record_and_commit",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// TestCheck_SaysWhatIsWrongWithTheTool: what keeps a check from being made.
func TestCheck_SaysWhatIsWrongWithTheTool(t *testing.T) {
	t.Parallel()
	url := database(t)
	good := calls(insert)
	for name, c := range map[string]struct {
		tool txidemtest.Tool
		url  string
		want string
	}{
		"no call":                 {txidemtest.Tool{Effects: sqlCount}, url, "a Tool needs"},
		"no query":                {txidemtest.Tool{Call: good}, url, "a Tool needs"},
		"a query that fails":      {txidemtest.Tool{Call: good, Effects: `select count(*) from nothing where n = $1`}, url, "Tool.Effects must give one number"},
		"a query without a value": {txidemtest.Tool{Call: good, Effects: `select sum(intent) from effect where intent = $1`}, url, "Tool.Effects must give one number"},
		"a bad URL":               {txidemtest.Tool{Call: good, Effects: sqlCount}, "postgres://%", "the database's URL"},
	} {
		_, err := txidemtest.Check(t.Context(), "", func() string { return c.url }, c.tool)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "txidemtest: ") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestCheck_SaysWhatIsWrongWithTheCall: faults that show without any crash.
func TestCheck_SaysWhatIsWrongWithTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool txidemtest.Tool
		want string
	}{
		"the query counts all": {txidemtest.Tool{Call: calls(insert), Effects: `select count(*) from effect where $1::integer > 0`}, "it must count those of the intent $1 only"},
		"fails":                {txidemtest.Tool{Call: failing}, "has no answer: broken"},
		"panics":               {txidemtest.Tool{Call: func(context.Context, *pgxpool.Pool, int) ([]byte, error) { panic("oh") }}, "Call panicked: oh"},
		"ends its goroutine": {txidemtest.Tool{Call: func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
			runtime.Goexit()
			return nil, nil
		}}, "runtime.Goexit"},
		"does not end": {txidemtest.Tool{Timeout: 50 * time.Millisecond, Call: func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
			<-t.Context().Done()
			return nil, nil
		}}, "did not return"},
		"wants too many":  {txidemtest.Tool{Call: calls(insert), Want: 2}, "counts 1 effects"},
		"wants too few":   {txidemtest.Tool{Call: calls(twoEffects)}, "counts 2 effects"},
		"should not work": {txidemtest.Tool{Call: calls(insert), Want: txidemtest.None}, "counts 1 effects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, _ := check(t, "", c.tool)
			if len(found) == 0 || !strings.Contains(found[0].String(), c.want) {
				t.Errorf("found %v, want %q", found, c.want)
			}
		})
	}
}

func failing(context.Context, *pgxpool.Pool, int) ([]byte, error) { return nil, errors.New("broken") }

// TestCheck_ProcessesNeedTheirTest: a test that does not come to its Check when it is started again is an error, not a
// finding.
func TestCheck_ProcessesNeedTheirTest(t *testing.T) {
	t.Parallel()
	_, err := txidemtest.Check(t.Context(), "TestNothing/of the kind", func() string { return database(t) }, txidemtest.Tool{Call: calls(insert), Effects: sqlCount})
	if err == nil || !strings.Contains(err.Error(), "did not get to the call") {
		t.Errorf("got %v", err)
	}
}

// TestCheck_AProcessEndsWithItsTest: one whose test is gone does not finish its call.
func TestCheck_AProcessEndsWithItsTest(t *testing.T) {
	t.Parallel()
	if txidemtest.Dying() { // its standard input is at its end, as if the test had died
		_, _ = txidemtest.Check(t.Context(), t.Name(), nil, txidemtest.Tool{Effects: sqlCount, Call: func(ctx context.Context, _ *pgxpool.Pool, _ int) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), fmt.Sprintf(`TXIDEMTEST_DIE={"Test":%q,"URL":%q,"App":"orphan"}`, t.Name(), database(t)))
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 87 {
		t.Errorf("it ended with %v: %s", err, out)
	}
}

// TestRun_TellsToolsApart: a process that is to die in the second tool passes by the first one.
func TestRun_TellsToolsApart(t *testing.T) {
	t.Parallel()
	for i, h := range []handler{insert, twoStatements} {
		txidemtest.Run(t, func() string { return database(t) }, txidemtest.Tool{Name: fmt.Sprint("tool ", i), Call: calls(h), Effects: sqlCount})
	}
}
