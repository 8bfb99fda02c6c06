// Package lives runs processes that are made to be killed, and what goes with them: the database they work in, the wires they
// are watched on, the line that says how far a run is, what they leave as they die, and the look for what outlives them. The
// programs that kill (crash, crashjobs, crashoutbox) share it.
//
// [Run] is such a program: it gives a run a database and writes its report. A [Keeper] runs processes in it, each of which is the
// running program once more ([Start]) and knows by a variable of its environment what it is. What such a process does first is [Assigned].
//
// It may import internal/devpg, migrations and pgx. It runs on Unix-like systems, for it needs SIGKILL.
package lives
