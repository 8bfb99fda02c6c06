// Package lives runs processes that are made to be killed, and what goes with them: the database they work in, the line that
// says how far a run is, and the look for what they left behind. The programs that kill (crash, crashjobs) share it.
//
// [OnServer] gives a run a database, [Start] a process: the running program once more, which knows by a variable of its
// environment what it is. What such a process does first is [Assigned].
//
// It may import internal/devpg and pgx. It runs on Unix-like systems, for it needs SIGKILL.
package lives
