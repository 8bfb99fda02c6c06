package intent_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// TestMiddleware_M10_OverAStream: an attempt that is given up cancels the handler there, and the next one runs.
func TestMiddleware_M10_OverAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t)
		here, there := net.Pipe() // as stdio is: a stream of lines
		serving, err := w.server.Connect(t.Context(), &mcp.IOTransport{Reader: there, Writer: there}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := w.openAs(t, &mcp.IOTransport{Reader: here, Writer: here}, nil)
		var runs atomic.Int32
		w.handle = func(ctx context.Context, _ refund) error {
			if runs.Add(1) == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		start := time.Now()
		r, err := call(inStep(t), s, 5)
		if err != nil || r.IsError || w.count() != 1 || runs.Load() != 2 || time.Since(start) < 30*time.Second {
			t.Errorf("%v, %v, %d effects, %d runs, %v", err, r, w.count(), runs.Load(), time.Since(start))
		}
		w.handle = func(context.Context, refund) error { return there.Close() } // the stream ends, and the call is done
		_, err = call(intent.WithStep(t.Context(), "run-7", "step-2"), s, 5)
		if unknown := wantUnknown(t, err); !errors.Is(err, mcp.ErrConnectionClosed) || unknown.Attempts != 2 || w.count() != 2 {
			t.Errorf("%v, %d effects", err, w.count())
		}
		_ = s.Close()
		_ = serving.Wait()
	})
}

// TestMiddleware_M10_OneMiddlewareServesManyCallsAtOnce: with faults in between, each its own effect and answer.
func TestMiddleware_M10_OneMiddlewareServesManyCallsAtOnce(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		for range 10 {
			w.wire.plan = append(w.wire.plan, faults...)
		}
		const calls = 40
		refunds := make(chan any, calls)
		for i := range calls {
			go func() {
				r, err := call(intent.WithStep(t.Context(), "run-7", intent.Nth("step-1", i)), s, int64(i))
				switch {
				case err != nil:
					t.Error(err)
					refunds <- nil
				case said(r)["cents"] != float64(i):
					t.Errorf("call %d got the answer %v", i, said(r))
					refunds <- nil
				default:
					refunds <- said(r)["refund"]
				}
			}()
		}
		seen := map[any]bool{}
		for range calls {
			seen[<-refunds] = true
		}
		if len(seen) != calls || w.count() != calls {
			t.Errorf("%d refunds, %d effects", len(seen), w.count())
		}
	})
}
