package main

import (
	"flag"
	"fmt"
	"io"
	"time"
)

// The roles that a process can have.
const (
	roleAll    = "all"
	roleServer = "server"
	roleWorker = "worker"
	roleUI     = "ui"
)

// options are the program's flags. Each role has those that it needs.
type options struct {
	role    string
	verbose bool

	schema string // of the application's tables; the others' are named after it
	leash  bool   // end when stdin does
	port   int
	uiPort int

	name  string // the worker's
	takes time.Duration
	lease time.Duration

	orders int
	every  time.Duration
	kill   bool
}

const (
	longestReport = 5 * time.Minute
	defaultSchema = "txonce_reports"
)

// parseOptions reads "[role] [flags]". What is wrong, it also says on stderr.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{role: roleAll}
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		o.role, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("reports "+o.role, flag.ContinueOnError)
	flags.SetOutput(stderr)
	err := o.define(flags)
	if err == nil {
		if err = flags.Parse(args); err != nil {
			return o, err
		}
		err = o.check(flags.Args())
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *options) define(flags *flag.FlagSet) error {
	flags.BoolVar(&o.verbose, "verbose", false, "show what the processes log")
	switch o.role {
	case roleAll:
		flags.IntVar(&o.orders, "orders", 6, "how many reports the agent orders; 0 goes on until Ctrl-C")
		flags.DurationVar(&o.every, "every", 4*time.Second, "time between two orders")
		flags.BoolVar(&o.kill, "kill", false, "kill the processes at random (SIGKILL), two times for each order at most")
		flags.IntVar(&o.uiPort, "ui-port", 0, "where River UI listens on 127.0.0.1; 0 takes a free port")
	case roleServer, roleWorker, roleUI:
		flags.StringVar(&o.schema, "schema", defaultSchema, "Postgres schema of the tables; the records are in <schema>_records, River's tables in <schema>_records_river")
		flags.BoolVar(&o.leash, "leash", false, "end when stdin does")
	default:
		return fmt.Errorf("reports: %q is no role; use server, worker or ui, or none for all of them", o.role)
	}
	if o.role != roleWorker {
		flags.IntVar(&o.port, "port", 0, "where it listens on 127.0.0.1; 0 takes a free port")
	}
	if o.role == roleWorker {
		flags.StringVar(&o.name, "name", "worker", "what it signs reports with")
	}
	if o.role == roleAll || o.role == roleWorker {
		flags.DurationVar(&o.takes, "takes", 20*time.Second, "how long a report takes")
		flags.DurationVar(&o.lease, "lease", 8*time.Second, "how long a worker that was killed keeps its reports from the others")
	}
	return nil
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("reports: unexpected argument %q; the role comes first, then flags", rest[0])
	case o.takes < 0 || o.takes > longestReport:
		return fmt.Errorf("reports: -takes is %v; it must be between 0 and %v", o.takes, longestReport)
	case o.orders < 0:
		return fmt.Errorf("reports: -orders is %d; it must be 0, for no end, or more", o.orders)
	case o.every < 0:
		return fmt.Errorf("reports: -every is %v; it must be 0 or more", o.every)
	}
	return nil
}
