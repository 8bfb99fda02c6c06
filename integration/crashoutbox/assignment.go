package main

import "github.com/txonce/txonce/integration/internal/lives"

// processEnv makes the program one of the processes that are killed.
const processEnv = "TXONCE_CRASHOUTBOX_PROCESS"

// role is what a process does.
type role string

const (
	relay  role = "relay"  // it delivers messages
	server role = "server" // it has the tool that publishes them
)

// assignment is the life of a process. It reads it from its standard input.
type assignment struct {
	Life     int
	Role     role
	Place    lives.Place
	Receiver string // its URL
	Plant    plant
	Death    *death   // nil to live
	Stop     *stop    // comes first, if there is one
	Calls    []intent // of a server
}

// What a process may be told later, a line each.
const (
	goOn  = "go on" // it was stopped
	spare = "spare" // it is not to die or to be stopped any more
	leave = "leave" // it is to stop in good order
)

// answer is what a server tells of a call, as a line of JSON, once the call has returned.
type answer struct {
	Intent   int
	Run      string // of the handler, whose messages have committed; empty where there is an error
	Failed   bool   // the call failed for good, and it is recorded
	Replayed bool
	Error    string
}
