package txidem

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// mirror is a codec that turns the bytes round and puts a version in front of them.
type mirror struct {
	version byte
	reads   []byte // the versions that it decodes
	encode  error
	panics  bool
	grow    int // bytes that it adds
}

func (m *mirror) Encode(_ context.Context, r Recorded, answer []byte) ([]byte, error) {
	if m.panics {
		panic("encode")
	}
	return append(append([]byte{m.version, r.ID[0]}, turned(answer)...), make([]byte, m.grow)...), m.encode
}

func (m *mirror) Decode(_ context.Context, r Recorded, stored []byte) ([]byte, error) {
	if m.panics {
		panic("decode")
	}
	if len(stored) < 2 || !bytes.Contains(m.reads, stored[:1]) || stored[1] != r.ID[0] {
		return nil, errors.New("another version")
	}
	return turned(stored[2:]), nil
}

func turned(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[len(b)-1-i] = b[i]
	}
	return out
}

// withCodec is a second store on the fixture's database.
func (f *fixture) withCodec(c Codec, policy *Policy) *Store {
	f.t.Helper()
	s, err := New(f.pool, &Config{Codec: c, Policy: policy})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) stored(key string) (answer []byte) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), `select answer from txonce.call where key = $1`, "x:"+key).Scan(&answer); err != nil {
		f.t.Fatal(err)
	}
	return answer
}

// everyWay makes a call in each of the ways, with its own identity for the one that has a lease.
func everyWay(f *fixture, s *Store, key string, answer string, fail error) map[Way]func(context.Context) (Result[string], error) {
	return map[Way]func(context.Context) (Result[string], error){
		WayRun: func(ctx context.Context) (Result[string], error) {
			return Run(ctx, s, request(key+"-run"), func(context.Context, pgx.Tx) (string, error) { return answer, fail })
		},
		WayTx: func(ctx context.Context) (r Result[string], err error) {
			txErr := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
				r, err = RunTx(ctx, tx, s, request(key+"-tx"), func(context.Context, pgx.Tx) (string, error) { return answer, fail })
				return nil
			})
			return r, errors.Join(err, txErr)
		},
		WayBatch: func(ctx context.Context) (Result[string], error) {
			return RunBatch(ctx, s, request(key+"-batch"), func(context.Context, *Batch) (string, error) { return answer, fail })
		},
		WayLeased: func(ctx context.Context) (Result[string], error) {
			return RunLeased(ctx, s, request(key+"-leased"), func(context.Context) (string, error) { return answer, fail }, nil)
		},
	}
}

func TestCodec_R21_AnswersAndFailuresPassThroughIt(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	s := f.withCodec(&mirror{version: 1, reads: []byte{1}}, nil)
	large := strings.Repeat("large ", 20_000)
	for label, c := range map[string]struct {
		answer string
		fail   error
	}{"a": {answer: "abc"}, "b": {answer: large}, "c": {fail: Fail("no", "not this one")}} {
		for way, call := range everyWay(f, s, label, c.answer, c.fail) {
			first, firstErr := call(t.Context())
			again, againErr := call(t.Context())
			if first.Replayed || !again.Replayed || !bytes.Equal(first.Raw, again.Raw) || len(first.Raw) == 0 {
				t.Errorf("%s %s: first %.80q replayed %v, %v; again %.80q replayed %v, %v", way, label, first.Raw, first.Replayed, firstErr, again.Raw, again.Replayed, againErr)
			}
			stored := f.stored(label + "-" + string(way))
			if stored[0] != 1 || !bytes.Equal(turned(stored[2:]), first.Raw) {
				t.Errorf("%s %s: stored is %.80q", way, label, stored)
			}
			status, err := s.Status(t.Context(), request(label+"-"+string(way)))
			if err != nil || c.fail == nil && !bytes.Equal(status.Answer, first.Raw) || c.fail != nil && (status.Failure == nil || status.Failure.Code != "no") {
				t.Errorf("%s %s: the status is %+v, %v", way, label, status.State, err)
			}
		}
	}
}

// TestCodec_R21_RecordThatCannotBeDecodedStays is a codec that was replaced by one that does not know the old bytes.
func TestCodec_R21_RecordThatCannotBeDecodedStays(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	old := f.withCodec(&mirror{version: 1, reads: []byte{1}}, nil)
	for way, call := range everyWay(f, old, "k", "abc", nil) {
		first, err := call(t.Context())
		if err != nil {
			t.Fatal(way, err)
		}
		for label, broken := range map[string]Codec{
			"another version": &mirror{version: 2, reads: []byte{2}},
			"panics":          &mirror{panics: true},
		} {
			s := f.withCodec(broken, nil)
			if r, err := everyWay(f, s, "k", "abc", nil)[way](t.Context()); !errors.Is(err, ErrCodec) || Retryable(err) || r.Raw != nil {
				t.Errorf("%s, %s: %+v, %v; want ErrCodec", way, label, r, err)
			}
			if _, err := s.Status(t.Context(), request("k-"+string(way))); !errors.Is(err, ErrCodec) {
				t.Errorf("%s, %s: the status gives %v, want ErrCodec", way, label, err)
			}
		}
		both := f.withCodec(&mirror{version: 2, reads: []byte{1, 2}}, nil)
		if again, err := everyWay(f, both, "k", "abc", nil)[way](t.Context()); err != nil || !again.Replayed || !bytes.Equal(again.Raw, first.Raw) {
			t.Errorf("%s: with a codec that knows both: %+v, %v", way, again, err)
		}
	}
}

func TestCodec_R21_CallThatCannotBeEncodedIsRolledBack(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for label, c := range map[string]struct {
		codec Codec
		want  error
	}{
		"error":     {&mirror{encode: errors.New("no key")}, ErrCodec},
		"panic":     {&mirror{panics: true}, ErrCodec},
		"too large": {&mirror{grow: 100}, ErrAnswerTooLarge},
	} {
		s := f.withCodec(c.codec, &Policy{MaxAnswer: 50})
		for _, fail := range []error{nil, Fail("no", "no")} {
			_, err := Run(t.Context(), s, request(name(label, fail != nil)), func(ctx context.Context, tx pgx.Tx) (string, error) {
				return "abc", errors.Join(write(ctx, tx, label), fail)
			})
			if !errors.Is(err, c.want) || Retryable(err) {
				t.Errorf("%s: %v, want %v", label, err, c.want)
			}
			if _, err := RunBatch(t.Context(), s, request(name(label, fail != nil)), func(_ context.Context, b *Batch) (string, error) {
				b.Queue(`insert into effect (intent) values ($1)`, label)
				return "abc", fail
			}); !errors.Is(err, c.want) {
				t.Errorf("%s: RunBatch: %v, want %v", label, err, c.want)
			}
		}
		if n := f.effects(label); n != 0 {
			t.Errorf("%s: %d effects, want none", label, n)
		}
	}
	if n := f.records(); n != 0 {
		t.Errorf("%d records, want none", n)
	}
	f.idle()
}

// TestCodec_R21_CancelledCallerStillCommits: the handler has returned, so a codec that asks a key service must not be cut off.
func TestCodec_R21_CancelledCallerStillCommits(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s := f.withCodec(codecFunc(func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}), nil)
	if _, err := Run(ctx, s, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	f.effectsAre(map[string]int{"k": 1})
}

type codecFunc func(context.Context) error

func (c codecFunc) Encode(ctx context.Context, _ Recorded, answer []byte) ([]byte, error) {
	return answer, c(ctx)
}

func (c codecFunc) Decode(_ context.Context, _ Recorded, stored []byte) ([]byte, error) {
	return stored, nil
}

// TestCodec_R10_R21_EscapedHandlerIsRecordedThroughIt: the failure in place of an answer is for the codec as well.
func TestCodec_R10_R21_EscapedHandlerIsRecordedThroughIt(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		f := setup(t, &Policy{CommitTimeout: 20 * time.Second}, nil)
		s := f.withCodec(&mirror{version: 1, reads: []byte{1}}, nil)
		escape := func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, `commit`)
			return "", err
		}
		tx, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RunTx(t.Context(), tx, s, request("k"), escape); !errors.Is(err, ErrHandlerEndedTx) {
			t.Errorf("%s: %v, want ErrHandlerEndedTx", level, err)
		}
		_ = tx.Rollback(t.Context())
		_, err = Run(t.Context(), s, request("k"), writes("k"))
		var failure *toolcall.Failure
		if !errors.As(err, &failure) || failure.Code != CodeHandlerEndedTx {
			t.Errorf("%s: a retry gets %v, want the failure", level, err)
		}
	}
}

// failCodec encodes nothing.
type failCodec struct{ Codec }

func (failCodec) Encode(context.Context, Recorded, []byte) ([]byte, error) { return nil, errCutOff }

// TestCodec_R21_SerializableTransactionOfTheCaller: there the codec is asked in front of the handler.
func TestCodec_R21_SerializableTransactionOfTheCaller(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.store = f.withCodec(failCodec{}, nil)
	if _, err := f.callTx(t.Context(), pgx.Serializable, request("a"), writes("a")); !errors.Is(err, ErrCodec) || errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrCodec and not ErrUnavailable", err)
	}
	f.effectsAre(map[string]int{"a": 0})
}
