package main

import (
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// processEnv makes the program one of the processes that are killed.
const processEnv = "TXONCE_CRASHJOBS_PROCESS"

// role is what a process does.
type role string

const (
	worker  role = "worker"  // it works jobs
	server  role = "server"  // it has the tool that submits them
	patient role = "patient" // it works jobs that are never done in the first attempt, with leases of the default length
)

// assignment is the life of a process. It reads it from its standard input.
type assignment struct {
	Life  int
	Role  role
	Place lives.Place
	Plant plant
	Death *death // nil to live
	Stop  *stop  // comes first, if there is one
	Calls []call // of a server
}

// What a process may be told later, a line each.
const (
	goOn  = "go on" // it was stopped
	spare = "spare" // it is not to die or to be stopped any more
	leave = "leave" // it is to stop in good order
)

// call is one call of the tool.
type call struct {
	Key  string
	Task task
	Most int // attempts; 0 for the definition's
}

// answer is what a server tells of a call, as a line of JSON, once the call has returned.
type answer struct {
	Intent   int
	Job      string // empty where there is an error
	Call     string // the call's id
	Replayed bool
	Error    string
}

// task is what a job is given.
type task struct {
	Intent int           `json:"intent"`
	Kind   kind          `json:"kind"`
	Pause  time.Duration `json:"pause"` // of the compute half
}

// receipt is the result of a job.
type receipt struct {
	Intent  int    `json:"intent"`
	Attempt string `json:"attempt"` // whose effect is there
}
