package migrations

import (
	"fmt"
	"hash/fnv"
)

const (
	// versionConstraint marks a version table as ours. It is a constraint's name
	// and not a comment because dumps may leave comments out.
	versionConstraint = "txonce_version"

	// schemaComment marks a schema that Up created and that Down may drop.
	schemaComment = "txonce: created by its migrations, dropped with them when empty"

	// lockClass is the first half of the advisory lock's key. The two-part form
	// keeps it apart from the locks of calls, which use the one-part form.
	lockClass int32 = 0x74786f6e // "txon"
)

// lockID is the second half of the advisory lock's key. Two schemas that share
// one by chance merely wait for each other.
func lockID(schema string) int32 {
	h := fnv.New32a()
	h.Write([]byte(schema))
	return int32(h.Sum32())
}

const queryTryLock = `select pg_catalog.pg_try_advisory_lock($1::int, $2::int), pg_catalog.pg_backend_pid()`

const queryUnlock = `select pg_catalog.pg_advisory_unlock($1::int, $2::int), pg_catalog.pg_backend_pid()`

// queryObjects reads catalogs only, so it works before there is anything and
// needs no privilege.
const queryObjects = `
select n.oid is not null,
       coalesce(pg_catalog.obj_description(n.oid, 'pg_namespace') = $2::text, false),
       t.oid is not null,
       exists (select from pg_catalog.pg_constraint k where k.conrelid = t.oid and k.conname = $3::text)
from (select) one
left join pg_catalog.pg_namespace n on n.nspname = $1::text
left join pg_catalog.pg_class t on t.relnamespace = n.oid and t.relname = 'schema_migrations'`

func versionTable(schema string) string { return fmt.Sprintf(`"%s".schema_migrations`, schema) }

func queryVersion(schema string) string {
	return `select version, dirty from ` + versionTable(schema) + ` order by version desc limit 1`
}

// setVersion replaces the version by v, by nothing if v is negative. No
// TRUNCATE: its lock would make readers of the version wait for the whole file.
func setVersion(schema string, v int) string {
	sql := `delete from ` + versionTable(schema) + `;`
	if v >= 0 {
		sql += fmt.Sprintf(` insert into %s (version, dirty) values (%d, false);`, versionTable(schema), v)
	}
	return sql
}

func createSchema(schema string) string {
	return fmt.Sprintf(`create schema "%[1]s"; comment on schema "%[1]s" is '%[2]s';`, schema, schemaComment)
}

// createVersionTable has the columns golang-migrate's own drivers use.
func createVersionTable(schema string) string {
	return fmt.Sprintf(`create table %s (version bigint not null constraint %s primary key, dirty boolean not null);`+
		` comment on table %[1]s is 'Version of the txonce schema. Written by its migrations only.';`,
		versionTable(schema), versionConstraint)
}

func dropVersionTable(schema string) string { return `drop table ` + versionTable(schema) + `;` }

// dropSchema has no CASCADE: what a user put there is not ours to drop.
func dropSchema(schema string) string { return fmt.Sprintf(`drop schema "%s";`, schema) }

// prologue goes in front of everything that writes, in the same message and
// therefore in the same implicit transaction. It refuses to run on another
// server connection than the one that holds the lock. The settings end with
// the transaction: search_path so that unqualified names mean our schema (and
// a temporary table of the same name does not come first), no statement_timeout
// since ctx bounds the run, and a check once a second that the client still
// lives, so that a killed process does not keep the lock until its statement
// is through. It is one line, so that line numbers are those of the file.
func prologue(schema string, pid uint32) string {
	return fmt.Sprintf(`do $txonce$ begin if pg_catalog.pg_backend_pid() <> %d then raise exception using errcode = '%s', `+
		`message = 'the lock is held by another server connection'; end if; end $txonce$; `+
		`select pg_catalog.set_config('search_path', '"%s", pg_temp', true), `+
		`pg_catalog.set_config('statement_timeout', '0', true), `+
		`pg_catalog.set_config('client_connection_check_interval', '1s', true); `, pid, codeMoved, schema)
}
