package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// click does what a button of River UI does with the job of the queue.
func (s *service) click(ui, button string, bell int64) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, ui+"api/jobs/"+button, strings.NewReader(fmt.Sprintf(`{"ids":["%d"]}`, bell)))
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || err != nil {
		s.t.Fatalf("%s: %s, %s, %v", button, answer.Status, body, err)
	}
}

// bell is River's row, of which there is one here.
func (s *service) bell() (id int64, state string, attempt int) {
	s.t.Helper()
	err := s.db.QueryRow(s.t.Context(), `select id, state::text, attempt from `+pgx.Identifier{s.db.names.river, "river_job"}.Sanitize()).Scan(&id, &state, &attempt)
	if err != nil {
		s.t.Fatal(err)
	}
	return id, state, attempt
}

func TestUI_J02_J10_RetryOfAReportThatIsDoneMakesNone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l, ui := s.as(demoToken), s.start(serveUI, options{})
	s.quick()
	job := s.order(l, north())
	done := s.await(l, job, toolcall.StateSucceeded)
	var id int64
	s.eventually("River has noted it", func() bool {
		var state string
		id, state, _ = s.bell()
		return state == "completed"
	})
	s.click(ui, "retry", id)
	s.eventually("River has run it again", func() bool {
		_, state, attempt := s.bell()
		return state == "completed" && attempt == 2
	})
	if again := s.ask(l, job); reportIn(again) != reportIn(done) || again.Attempts != 1 {
		t.Errorf("it was %+v, and is %+v", done, again)
	}
	s.madeAre(map[string]int{"R-7": 1})
}

// TestUI_J10_DeletedDoorbellIsHungAnew: the order is not lost with it.
func TestUI_J10_DeletedDoorbellIsHungAnew(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l, ui := s.as(demoToken), s.start(serveUI, options{})
	job := s.order(l, north())
	id, _, _ := s.bell()
	s.click(ui, "delete", id)
	s.quick()
	s.await(l, job, toolcall.StateSucceeded)
	s.madeAre(map[string]int{"R-7": 1})
}

func TestUI_J07_J10_CancelOfAReportThatWaits(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l, ui := s.as(demoToken), s.start(serveUI, options{})
	job := s.order(l, north())
	id, _, _ := s.bell()
	s.click(ui, "cancel", id)
	s.await(l, job, toolcall.StateCancelled)
}

func TestUI_J07_J10_CancelOfAReportThatRuns(t *testing.T) {
	t.Parallel()
	s := newService(t)
	l, ui := s.as(demoToken), s.start(serveUI, options{})
	s.slow()
	job := s.order(l, north())
	s.await(l, job, toolcall.StateRunning)
	id, _, _ := s.bell()
	s.click(ui, "cancel", id)
	if got := s.await(l, job, toolcall.StateCancelled); got.Result != nil {
		t.Errorf("%+v", got)
	}
	s.madeAre(map[string]int{})
}

// TestUI_ServesItsPage: the interface itself is there, and no page of another site can press its buttons.
func TestUI_ServesItsPage(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ui := s.start(serveUI, options{})
	defer http.DefaultClient.CloseIdleConnections()
	for _, c := range []struct {
		method, path, origin string
		status               int
		says                 string
	}{
		{http.MethodGet, "", "", http.StatusOK, "<html"},
		{http.MethodGet, "api/jobs?state=available", "", http.StatusOK, `"data"`},
		{http.MethodPost, "api/jobs/cancel", "https://example.org", http.StatusForbidden, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, ui+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", c.origin)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != c.status || err != nil || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s: %s, %v\n%s", c.method, c.path, answer.Status, err, body)
		}
	}
}
