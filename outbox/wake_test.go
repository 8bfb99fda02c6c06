package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem"
)

// TestWake_O01_NoneIsLost is trap 3: a message that comes between a look that finds nothing and the rest behind it ends that rest, in
// whichever way it was published. So does a slot that becomes free.
func TestWake_O01_NoneIsLost(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box, err := New(pool, nil, Destination{Name: "mail", Publisher: Func(func(context.Context, Delivery) (Outcome, error) { return Outcome{Class: Delivered}, nil })})
	if err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := newRelay(box)
	m := Message{Destination: "mail"}
	for label, come := range map[string]func() error{
		"in a call": func() error {
			_, err := txidem.Run(ctx, store, txidem.Request{Scope: "a", Tool: "b", Key: "c"}, func(ctx context.Context, tx pgx.Tx) (string, error) {
				_, err := box.PublishTx(ctx, tx, m)
				return "", err
			})
			return err
		},
		"in a transaction": func() error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := box.PublishTx(ctx, tx, m)
				return err
			})
		},
		"Resume": func() error { return box.Resume(ctx, "mail") },
		"a slot": func() error { notify(r.freed); return nil },
	} {
		for len(box.woken) > 0 {
			<-box.woken
		}
		if err := come(); err != nil {
			t.Fatal(err)
		}
		if !r.rest(ctx, time.Hour) {
			t.Errorf("%s: the relay sleeps on", label)
		}
	}
}

// TestSlots_O04_OneThatIsFreeAgainIsSaid by exactly the attempt that frees the first one, however many end at once.
func TestSlots_O04_OneThatIsFreeAgainIsSaid(t *testing.T) {
	t.Parallel()
	for range 200 {
		s := &slots{free: 0}
		said := make(chan int, 8)
		for range 8 {
			go func() { said <- s.take(-1) }()
		}
		first := 0
		for range 8 {
			if <-said == 1 {
				first++
			}
		}
		if first != 1 || s.left() != 8 {
			t.Fatalf("%d freed the first slot, %d are free", first, s.left())
		}
	}
}
