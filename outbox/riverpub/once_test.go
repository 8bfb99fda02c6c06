package riverpub_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/riverpub"
)

func TestDeliver_O01_OneJobForAttemptsAtTheSameTime(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	p := newPublisher(t, pool, newClient(t, pool, nil), nil)
	ids := make([]string, 8)
	var attempts sync.WaitGroup
	for i := range ids {
		attempts.Go(func() {
			out, err := p.Deliver(t.Context(), aDelivery(1))
			if err != nil || out.Class != outbox.Delivered {
				t.Errorf("attempt came to %+v, %v", out, err)
			}
			ids[i] = out.ProviderID
		})
	}
	attempts.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("attempts found jobs %q", ids)
		}
	}
	if n := jobs(t, pool, aDelivery(1).ID); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestDeliver_O01_OneJobInEachState(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	client := newClient(t, pool, nil)
	p := newPublisher(t, pool, client, nil)
	renamed := newPublisher(t, pool, client, &riverpub.Config{Kind: "renamed", Queue: "other", Priority: 2})
	for i, state := range []string{"available", "scheduled", "pending", "running", "retryable", "completed", "cancelled", "discarded"} {
		d := aDelivery(byte(i))
		first := delivered(t, p, d)
		_, err := pool.Exec(t.Context(), `update `+riverSchema+`.river_job set state = $2::`+riverSchema+`.river_job_state,
			finalized_at = case when $2 in ('completed', 'cancelled', 'discarded') then now() end where id::text = $1`, first, state)
		if err != nil {
			t.Fatal(err)
		}
		d.Attempt, d.Tool = 2, "" // a release that knows more or less about messages has other arguments
		for _, p := range []*riverpub.Publisher{p, renamed} {
			if second := delivered(t, p, d); second != first {
				t.Errorf("%s: attempts made jobs %s and %s", state, first, second)
			}
		}
		if n := jobs(t, pool, d.ID); n != 1 {
			t.Errorf("%s: %d jobs", state, n)
		}
	}
}

// River's rows are its memory. Where one is gone, nobody can know: the job is made again, as the documentation says.
func TestDeliver_O01_RowThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	p := newPublisher(t, pool, newClient(t, pool, nil), nil)
	first := delivered(t, p, aDelivery(1))
	if _, err := pool.Exec(t.Context(), `delete from `+riverSchema+`.river_job where id::text = $1`, first); err != nil {
		t.Fatal(err)
	}
	if second := delivered(t, p, aDelivery(1)); second == first {
		t.Errorf("job %s again", second)
	}
}

// While a job runs, a second attempt of its message finds its row, and keeps River from nothing (R4).
func TestDeliver_O08_BesideARunningJob(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	running, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	client := newClient(t, pool, map[string]worker{
		riverpub.DefaultKind: func(ctx context.Context, job *river.Job[riverpub.Args]) error {
			if job.Args.ID == aDelivery(1).ID {
				close(running) // a second time would panic
				<-release
			}
			return nil
		},
	})
	start(t, client)
	t.Cleanup(func() { once.Do(func() { close(release) }) })
	completed, stop := client.Subscribe(river.EventKindJobCompleted)
	defer stop()
	p := newPublisher(t, pool, client, nil)
	first := delivered(t, p, aDelivery(1))
	get(t, running)
	if second := delivered(t, p, aDelivery(1)); second != first {
		t.Errorf("jobs %s and %s", first, second)
	}
	delivered(t, p, aDelivery(2))
	if event := get(t, completed); !strings.Contains(string(event.Job.EncodedArgs), aDelivery(2).ID.String()) {
		t.Errorf("completed %s", event.Job.EncodedArgs)
	}
	once.Do(func() { close(release) })
	get(t, completed)
	if n := jobs(t, pool, aDelivery(1).ID); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestDeliver_O01_ClassesAreTrue(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	client := newClient(t, pool, nil)
	broken := errors.New("the wire is cut")
	d := aDelivery(1)

	out, err := newPublisher(t, beginner{pool, broken, nil}, client, nil).Deliver(t.Context(), d)
	if err != nil || out.Class != outbox.Retry || !strings.Contains(out.Reason, broken.Error()) {
		t.Errorf("without a connection: %+v, %v", out, err)
	}

	strangers := newClient(t, pool, map[string]worker{"another": func(context.Context, *river.Job[riverpub.Args]) error { return nil }})
	out, err = newPublisher(t, pool, strangers, nil).Deliver(t.Context(), d)
	if err != nil || out.Class != outbox.Retry || !strings.Contains(out.Reason, riverpub.DefaultKind) {
		t.Errorf("with a kind that no worker has: %+v, %v", out, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err = newPublisher(t, pool, client, nil).Deliver(ctx, d)
	if err != nil || out.Class != outbox.Retry {
		t.Errorf("behind its time: %+v, %v", out, err)
	}
	if n := jobs(t, pool, d.ID); n != 0 {
		t.Fatalf("%d jobs, and none was inserted", n)
	}

	out, err = newPublisher(t, beginner{pool, nil, broken}, client, nil).Deliver(t.Context(), d)
	if !errors.Is(err, broken) || out.Class != outbox.Unanswered || !strings.HasPrefix(err.Error(), "riverpub: ") {
		t.Errorf("without an answer to COMMIT: %+v, %v", out, err)
	}
	if n := jobs(t, pool, d.ID); n != 1 {
		t.Errorf("%d jobs behind a COMMIT without an answer", n)
	}
	delivered(t, newPublisher(t, pool, client, nil), d)
	if n := jobs(t, pool, d.ID); n != 1 {
		t.Errorf("%d jobs behind the next attempt", n)
	}
}

// beginner fails to begin, or loses the answer to COMMIT.
type beginner struct {
	pool          *pgxpool.Pool
	begin, commit error
}

func (b beginner) Begin(ctx context.Context) (pgx.Tx, error) {
	if b.begin != nil {
		return nil, b.begin
	}
	tx, err := b.pool.Begin(ctx)
	return lossy{tx, b.commit}, err
}

type lossy struct {
	pgx.Tx
	lost error
}

func (tx lossy) Commit(ctx context.Context) error { return errors.Join(tx.Tx.Commit(ctx), tx.lost) }
