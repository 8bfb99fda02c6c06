// Package migrations creates and upgrades the Postgres schema of txonce.
//
// Call [Up] once at start-up, before the store is opened. It is safe to call it
// in every process on every start: one process migrates, the others wait for it
// and find nothing to do. [Down] takes everything away again, [Version] tells
// where a database stands.
//
//	pool, err := pgxpool.New(ctx, url)
//	…
//	if err := migrations.Up(ctx, pool, nil); err != nil {
//		return err
//	}
//
// # Guarantees
//
//   - A file is applied as a whole, together with the version it leads to, or
//     not at all. After a failing statement, a killed process or a cut
//     connection the database is at the old version or at the new one, and the
//     next Up goes on from there. There is no "dirty" state to clear by hand.
//   - A schema that is newer than this build is left alone and Up returns nil,
//     so that during a rolling deploy, and after a rolled-back one, the previous
//     build still starts.
//   - Nothing outside the configured schema is touched. The version table,
//     schema_migrations, lies in that schema too: an application may use
//     golang-migrate for its own tables beside it. A schema_migrations table
//     that is not ours is refused.
//   - One connection is used, so a pool of one is enough. A connection that
//     held the lock is closed at the end rather than given back to the pool.
//
// # Privileges
//
// Up needs a role that may create the schema, or create tables in it if it
// exists already. The role the application works with needs no DDL:
//
//	grant usage on schema txonce to app;
//	grant select, insert, delete on txonce.call to app;
//	grant update (fingerprint, canon, fields, state, attempt, answer, finished_at, expires_at, tombstone, lease_until) on txonce.call to app;
//	grant select on txonce.schema_migrations to app;
//
// The third line is for calls by RunLeased, and by RunTx in SERIALIZABLE transactions; the last one for a role that calls Up
// or Version. The role that sweeps (it may be the same) needs, unless it has the third line,
//
//	grant update (answer) on txonce.call to sweeper;
//
// since rows are locked while they are swept. Functions of the schema are for everyone, as Postgres has it by default. With these grants Up
// succeeds when there is nothing to do, so an application can call it at every
// start while somebody else migrates beforehand.
//
// # Limits
//
//   - PostgreSQL 14 or newer ([ErrServerTooOld]).
//   - A direct connection to the primary. Behind pgbouncer in transaction mode
//     the advisory lock and the statements it protects may reach different
//     server connections; Up and Down notice that and return [ErrPooled]. Give
//     them a pool with the server's own address; the rest of txonce works
//     through pgbouncer. A call of Up that finds nothing to do works as well.
//   - The time a run may take is bounded by ctx alone: the statement_timeout of
//     the role does not apply, its lock_timeout does.
//
// The runner is the golang-migrate library. This package may import
// golang-migrate and pgx, and nothing on the path of a call imports it.
package migrations
