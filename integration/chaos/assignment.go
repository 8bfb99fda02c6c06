package main

import "github.com/txonce/txonce/integration/internal/lives"

// processEnv makes the program one of the processes that are killed.
const processEnv = "TXONCE_CHAOS_PROCESS"

// role is what a process does.
type role string

const (
	server role = "server" // it has the tools
	worker role = "worker" // it works jobs
	relay  role = "relay"  // it delivers messages

	database role = "db" // it is none of our processes, and killed like one
)

// How many processes there are at a time, of each role.
func roles() map[role]int { return map[role]int{server: 2, worker: 3, relay: 2} }

// inOrder are the roles as people read them.
func inOrder() []role { return []role{server, worker, relay} }

// assignment is the life of a process. It reads it from its standard input.
type assignment struct {
	Life     int
	Role     role
	N        int // which of its role, from 0
	Place    lives.Place
	Receiver string // its URL
	Plant    plant
}

// leave tells a process to stop in good order.
const leave = "leave"

// mark is what a server says, once in its life: where it listens.
type mark struct{ URL string }
