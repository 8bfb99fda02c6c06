package txidemtest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem/txidemtest"
)

// fault is a tool with a planted fault, and where it must be found. Each word of in is in the name of a point at which
// something is found.
type fault struct {
	call func(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error)
	in   []string
	says string // is in one of the findings
}

func planted() map[string]fault {
	return map[string]fault{
		"an effect outside tx":                {always(calls(outsideTx)), []string{"killed", "cut before the record", "cancelled", "refused"}, "insert into effect"},
		"an upsert outside tx":                {always(calls(upsertOutsideTx)), []string{"killed", "record and commit refused with 53100"}, "outside tx"},
		"an effect in a defer by the pool":    {always(calls(inADefer)), []string{"panic before", "refused with 53100"}, "outside tx"},
		"an effect by the pool after Run":     {always(afterRun), []string{"killed after the record"}, "0 effects"},
		"an effect by the pool before Run":    {always(beforeRun), []string{"in a row", "at once"}, "outside tx"},
		"an effect where ctx has ended":       {always(calls(whereCtxEnded)), []string{"cancelled inside statement 1"}, "outside tx"},
		"a goroutine that outlives the call":  {always(calls(outlives)), []string{"in a row"}, "2 effects"},
		"a goroutine with the effect":         {always(calls(inAGoroutine)), []string{"panic", "cut"}, "effects"},
		"COMMIT by raw SQL":                   {always(calls(rawCommit)), []string{"in a row"}, "raw SQL"},
		"COMMIT and BEGIN by the connection":  {always(calls(rawCommitAndBegin)), []string{"in a row"}, "raw SQL"},
		"a kept tx":                           {always(keptTx), []string{"in a row"}, "kept"},
		"a kept connection":                   {keptConn, []string{"in a row"}, "2 effects"},
		"a connection that is not given back": {neverReleased, []string{"in a row"}, "not given back"},
		"a transaction of its own, left open": {leftOpen, []string{"in a row"}, "not given back"},
		"a session's lock":                    {always(calls(sessionLock)), []string{"in a row"}, "advisory lock"},
		"a swallowed error":                   {always(calls(swallows)), []string{"refused with 53100"}, "swallowed"},
		"a swallowed error in a savepoint":    {always(calls(swallowsInSavepoint)), []string{"refused with 53100"}, "swallowed"},
		"a savepoint left open":               {always(calls(leavesSavepoint)), []string{"refused with 53100"}, "swallowed"},
		"success whatever the error":          {always(alwaysDone), []string{"cut inside statement 1"}, "swallowed"},
		"done, says the process's memory":     {remembers, []string{"record and commit refused with 53100"}, "memory"},
		"done, says the handler's memory":     {handlerRemembers, []string{"panic after", "cut before the record"}, "memory"},
		"a goroutine that writes much later":  {muchLater, []string{"in the end"}, "outlives the call"},
		"looks first, and then takes any key": {looksFirst, []string{"at once"}, "2 effects"},
		"a key for each attempt":              {keyPerAttempt, []string{"in a row", "at once"}, "another key"},
		"a key for each process":              {always(keyPerProcess), []string{"killed before the reply"}, "another key"},
		"another key after an error":          {always(otherKeyAfterAnError), []string{"panic"}, "another key"},
		"arguments for each attempt":          {argsPerAttempt, []string{"in a row"}, "other arguments"},
		"an answer for each attempt":          {answerPerAttempt, []string{"in a row"}, "the answer changed"},
		"a call in a call":                    {always(calls(nested)), []string{"in a row"}, "protected call"},
		"no protection":                       {always(unprotected), []string{"in a row"}, "must use txidem"},
	}
}

func TestCheck_R02_FindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, f := range dbtest.Sample(t, 4, planted()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test := ""
			if strings.Contains(strings.Join(f.in, " "), "killed") {
				test = t.Name()
			}
			found, _ := check(t, test, txidemtest.Tool{Call: f.call(t)})
			f.isFound(t, found)
		})
	}
}

func (f fault) isFound(t *testing.T, found []txidemtest.Finding) {
	t.Helper()
	points, problems := "", ""
	for i, finding := range found {
		if strings.Contains(finding.Problem, "left out") && i < len(found)-1 {
			t.Errorf("the check goes on behind %v", finding)
		}
		points += finding.Point + "\n"
		problems += finding.Problem + "\n"
	}
	for _, point := range f.in {
		if !strings.Contains(points, point) {
			t.Errorf("nothing is found at %q", point)
		}
	}
	if !strings.Contains(problems, f.says) {
		t.Errorf("no finding says %q", f.says)
	}
	if t.Failed() || len(found) == 0 {
		t.Errorf("%d findings at\n%s%s", len(found), points, problems)
	}
}
