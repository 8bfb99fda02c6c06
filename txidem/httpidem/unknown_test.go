package httpidem_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// TestHandler_R15_UnknownWithoutProtectionIsNotToBeRepeated: there is no record that a repeat could get its response from.
func TestHandler_R15_UnknownWithoutProtectionIsNotToBeRepeated(t *testing.T) {
	t.Parallel()
	wire := &faultconn.Dialer{}
	b := setup(t, &httpidem.Config{Policy: &txidem.Policy{Disabled: true, CommitTimeout: 200 * time.Millisecond}}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		faultconn.Of(tx.Conn().PgConn().Conn()).Arm(faultconn.Fault{Write: faultconn.Executes, Then: faultconn.CutAtAnswer})
		return created(w, r, tx)
	}, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialFunc })
	a := b.post("A-1", "k", `{}`)
	b.want("the commit's answer is lost", a, 500, "outcome_unknown", false)
	if a.document()["repeat_same_call"] != false || a.header.Get("Retry-After") != "" {
		t.Errorf("it may be repeated: %s", a.body)
	}
}
