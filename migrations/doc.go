// Package migrations creates and upgrades the Postgres schema of txonce, and
// beside it that of River, the job queue on which package jobs runs.
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
//   - Nothing outside the configured schemas is touched. The version table,
//     schema_migrations, lies in our schema too: an application may use
//     golang-migrate for its own tables beside it. A schema_migrations table
//     that is not ours is refused.
//   - One connection of the pool is used, so a pool of one is enough. A connection
//     that held the lock is closed at the end rather than given back to the pool.
//     River's migrations have one connection more while they run, opened as the
//     pool opens its own.
//
// # River
//
// Up applies those of River's migrations that this build knows and the database
// lacks, in the schema txonce_river ([Config].RiverSchema), under the same lock
// and with River's own runner. Each is in a transaction of its own, so the
// guarantees above hold for them as well; a version of River's that is newer than
// this build is left alone.
//
// An application that has a River of its own has three ways:
//
//   - Leave things as they are: there are two Rivers then, in two schemas.
//   - [Config].NoRiver, and share its client: River's tables, or rather their
//     version, are its own affair.
//   - [Config].RiverSchema with the schema of its River: Up rolls it forward, as
//     River's own tool would, to the latest version that this build knows.
//     Share its client here too: of two clients in one schema, one may discard
//     jobs of the other's that were stuck, since it does not know their kind.
//
// [Down] takes River's tables away where Up made them, which the table txonce_mark
// beside them tells, and the schema if Up made that and it is empty. It leaves
// River alone under NoRiver, and where River's tables were there before: what is
// queued in them for txonce stays as well. River's tables that were not made by
// River's own migrations (there is no river_migration) are refused by Up.
//
// # Privileges
//
// Up needs a role that may create the two schemas, or create tables in them if
// they exist already, and that owns the tables which are there. The role the
// application works with needs no DDL:
//
//	grant usage on schema txonce to app;
//	grant select, insert, delete on txonce.call to app;
//	grant update (fingerprint, canon, fields, state, attempt, answer, finished_at, expires_at, tombstone, lease_until) on txonce.call to app;
//	grant select on txonce.schema_migrations to app;
//	grant usage on schema txonce_river to app;
//	grant select on txonce_river.river_migration to app;
//
// The third line is for calls by RunLeased, and by RunTx in SERIALIZABLE transactions; the fourth one for a role that calls Up
// or Version, and the last two for one that calls Up without NoRiver. A role that submits or works jobs (it may be the same)
// needs the first three lines, and
//
//	grant usage on schema txonce, txonce_river to worker;
//	grant select, insert, update, delete on txonce.job to worker;
//	grant select, insert, update, delete on txonce_river.river_job, txonce_river.river_queue, txonce_river.river_leader to worker;
//	grant usage on sequence txonce_river.river_job_id_seq to worker;
//
// A role that publishes messages through package outbox needs
//
//	grant usage on schema txonce to publisher;
//	grant select, insert on txonce.message, txonce.message_pending to publisher;
//
// and one that relays them, operates on them, or asks for their status,
//
//	grant usage on schema txonce to relay;
//	grant select, insert, update, delete on txonce.message, txonce.message_pending, txonce.message_outcome, txonce.destination to relay;
//
// River rebuilds some of its indexes each night, for which Postgres wants the owner of the tables: with another role, River
// logs an error then and works on. The role that sweeps (it may be the same) needs, unless it has the third line,
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
// The runner is the golang-migrate library, and rivermigrate for River's. This
// package may import these, River's driver for pgx, and pgx, and nothing on the
// path of a call imports it.
package migrations
