// Package failover has tests of txonce on a primary and its standby, of which the primary fails in the middle of load.
//
// Clients have one URL that names both servers and asks for the one that takes writes; they are told nothing else. Calls, jobs and
// messages go on while the primary is killed, or frozen and shut out, and the standby promoted. What callers hear is written down
// as it comes, and compared with what the promoted server has:
//
//   - With synchronous replication nothing that was acknowledged is lost, and everything is done once.
//   - With asynchronous replication, calls that were acknowledged are lost. They are lost as a whole: record, effect, job and message.
//
// The servers are those of integration/internal/servers, of each version at hand. There is nothing here but tests.
package failover
