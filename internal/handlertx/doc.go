// Package handlertx is the transaction that a handler gets, in calls and in jobs: the real one, which is ended for the handler
// and is of no use once it has returned. [New] guards one; the [Watch] that comes with it says what the handler did to
// it. The settings are those that make Postgres end the transaction of a client that has vanished.
//
// What Conn and LargeObjects of the transaction return is the connection itself; nothing here can take that away again.
//
// It may import toolcall, pgx and internal/sqltext.
package handlertx
