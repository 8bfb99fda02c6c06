package statustool

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// Config is what [Add] can be told. The zero value of a field means its default.
type Config struct {
	// Name is the name of the tool. Defaults to "get_status".
	Name string

	// PerTool adds a tool for each protected one beside it, such as get_issue_refund_status for issue_refund, which answers for
	// that tool and has the type of its result. Defaults to false.
	PerTool bool

	// Canceller adds a tool that cancels jobs, and serves tasks/cancel. Defaults to none: jobs cannot be cancelled here.
	Canceller Canceller

	// Outbox has the tools tell what became of the messages that calls and jobs have sent, for those that have ended. It takes one
	// more round trip. An *outbox.Outbox is one. Defaults to none: nothing is said of messages.
	Outbox toolcall.MessageSource

	// CancelName is the name of that tool. Defaults to "cancel_job".
	CancelName string

	// Tasks answers clients that declare the extension io.modelcontextprotocol/tasks with a task where a tool's answer is the
	// handle of a job. Turn it on only where clients handle what they declare: one that does not sees an empty success, and the
	// official Go SDK's client (v1.8.0) is such a one. Defaults to false.
	Tasks bool

	// MaxWait bounds how long one question waits for the end: what clients and proxies endure. From 1 second to 5 minutes.
	// Defaults to 25 seconds.
	MaxWait time.Duration

	// Poll is the time between two looks for all who wait, which finds what other processes have done; what this one does is
	// seen at once. Where a look takes long it is done less often, so that looking takes a fifth of the time at most. From 20
	// ms to 1 minute. Defaults to 75 ms.
	Poll time.Duration

	// Logger hears of questions that could not be answered. Never write it to stdout: that is the protocol's channel of a stdio
	// server. Defaults to a logger that discards.
	Logger *slog.Logger
}

const (
	longestWait = 5 * time.Minute
	defaultWait = 25 * time.Second
	defaultPoll = 75 * time.Millisecond
)

// toolName is what the protocol takes as the name of a tool.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// withDefaults returns a copy that is complete, or an error that names the field.
func (cfg *Config) withDefaults() (Config, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.Name, c.CancelName = or(c.Name, "get_status"), or(c.CancelName, "cancel_job")
	for field, name := range map[string]string{"Name": c.Name, "CancelName": c.CancelName} {
		if !toolName.MatchString(name) {
			return c, fmt.Errorf("statustool: Config.%s is %q; use 1 to 128 letters, digits, dots, hyphens and underscores", field, name)
		}
	}
	return c, times("Config", &c.MaxWait, &c.Poll, &c.Logger)
}

// times fills in and checks what [Config] and [HandlerConfig] have in common.
func times(config string, wait, poll *time.Duration, log **slog.Logger) error {
	*wait, *poll = or(*wait, defaultWait), or(*poll, defaultPoll)
	if *log == nil {
		*log = slog.New(slog.DiscardHandler)
	}
	switch {
	case *wait < time.Second || *wait > longestWait:
		return fmt.Errorf("statustool: %s.MaxWait is %v; it must be between 1s and %v", config, *wait, longestWait)
	case *poll < least || *poll > time.Minute:
		return fmt.Errorf("statustool: %s.Poll is %v; it must be between %v and 1m", config, *poll, least)
	}
	return nil
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
