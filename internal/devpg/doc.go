// Package devpg provides a throwaway Postgres for demos and tests.
//
// [Start] uses the server named by [Config].URL, TXONCE_TEST_DATABASE_URL or
// DATABASE_URL; without one it starts a server of its own and [Server.Stop]
// ends it. A URL that is set but wrong is an error, never a reason to look
// further.
//
// A server of its own comes from local binaries (PATH, then the usual install
// folders) or, for ordinary users, from a download by embedded-postgres. It
// listens on a Unix socket in a directory of its own, on tmpfs where there is
// one, and runs as an ordinary user even when the caller is root. Server and
// directory vanish when the parent does, however it dies: a shell that reads a
// pipe from the parent stops the server at end of file. What a SIGKILL of that
// shell leaves behind is removed by the next Start.
//
// [StartPooler] puts a pgbouncer in transaction mode in front of a server, for tests. It comes and goes in the same way,
// and has to be installed.
//
// Limits: servers are started on Unix-like systems only; elsewhere a URL is
// needed. Servers are fast and forgetful (no fsync) unless [Config].Durable.
package devpg
