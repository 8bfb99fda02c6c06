package dbtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/devpg"
)

// testRole owns the databases of tests. Its password is its name.
const testRole = "txonce_test"

// poolers are those of this process. They end with it: devpg's keeper sees to that.
var poolers poolerSet

// poolerSet has a pooler for each server that tests use: the common one, and those that tests start for themselves.
type poolerSet struct {
	mu sync.Mutex
	of map[string]*devpg.Pooler // by host and port of the server
}

func (s *poolerSet) inFrontOf(ctx context.Context, cfg *pgxpool.Config) (*devpg.Pooler, error) {
	server := net.JoinHostPort(cfg.ConnConfig.Host, strconv.Itoa(int(cfg.ConnConfig.Port)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.of[server]; p != nil {
		return p, nil
	}
	p, err := devpg.StartPooler(ctx, cfg.ConnString(), map[string]string{testRole: testRole})
	if err != nil {
		return nil, err
	}
	if s.of == nil {
		s.of = make(map[string]*devpg.Pooler)
	}
	s.of[server] = p
	return p, nil
}

// report stops the poolers and says what the tests ran on. Poolers that have seen nothing of the tests are an error: the tests have
// found another way.
func (s *poolerSet) report(out io.Writer) error {
	w, err := theWay()
	if err != nil {
		return err
	}
	version, transactions, err := s.stop()
	srv := started.Load()
	if err != nil || srv == nil { // no test has asked for a database
		return err
	}
	line := fmt.Sprintf("ran on: PostgreSQL %s, directly, %s", srv.Version(), cmp.Or(w.name, "cache_statement"))
	if w.pooled {
		if transactions == 0 {
			return errors.New("no transaction went through the pooler; make pools with this package")
		}
		line = fmt.Sprintf("ran on: PostgreSQL %s through pgbouncer %s (transaction mode, %d transactions), %s", srv.Version(), version, transactions, w.name)
	}
	_, err = fmt.Fprintln(out, line)
	return err
}

// stop stops the poolers and returns their version, and how many transactions went through them.
func (s *poolerSet) stop() (version string, transactions int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, p := range s.of {
		n, countErr := p.Transactions(ctx)
		err = errors.Join(err, countErr, p.Stop())
		version, transactions = p.Version(), transactions+n
	}
	return version, transactions, err
}
