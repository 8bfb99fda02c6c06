package migrations

import "fmt"

// markTable is made in front of River's tables and in their schema, and says that
// they are of Up's making: Down takes away none that were there before. It is a
// table and not a comment because dumps may leave comments out.
const markTable = "txonce_mark"

func createMark(schema string) string {
	return fmt.Sprintf(`create table "%[1]s".%[2]s (); comment on table "%[1]s".%[2]s is `+
		`'River''s tables in this schema were made by the migrations of txonce, and go with them.';`, schema, markTable)
}

func dropMark(schema string) string { return fmt.Sprintf(`drop table "%s".%s;`, schema, markTable) }

// queryRiverObjects reads catalogs only, as queryObjects does.
const queryRiverObjects = `
select n.oid is not null,
       coalesce(pg_catalog.obj_description(n.oid, 'pg_namespace') = $2::text, false),
       exists (select from pg_catalog.pg_class k where k.relnamespace = n.oid and k.relname = '` + markTable + `'),
       exists (select from pg_catalog.pg_class j where j.relnamespace = n.oid and j.relname = 'river_job'),
       t.oid is not null,
       exists (select from pg_catalog.pg_attribute a where a.attrelid = t.oid and a.attname = 'line' and not a.attisdropped)
from (select) one
left join pg_catalog.pg_namespace n on n.nspname = $1::text
left join pg_catalog.pg_class t on t.relnamespace = n.oid and t.relname = 'river_migration'`

// queryRiverVersions reads River's own table of versions, which has a row for
// each, and lines (of migrations) since River's version 5: the main one, and
// those of its add-ons.
func queryRiverVersions(schema string, lines bool) string {
	line := `'main'`
	if lines {
		line = `line`
	}
	return fmt.Sprintf(`select coalesce(array_agg(version) filter (where %[1]s = 'main'), '{}'), coalesce(bool_or(%[1]s <> 'main'), false) from "%[2]s".river_migration`,
		line, schema)
}

// outliveIdleness keeps the session, which holds the lock and has nothing to say
// while River's migrations run, from being ended by idle_session_timeout.
const outliveIdleness = `select pg_catalog.set_config('idle_session_timeout', '0', false);`

// settings are those of the prologue, for a session.
const settings = `select pg_catalog.set_config('statement_timeout', '0', false), ` +
	`pg_catalog.set_config('client_connection_check_interval', '1s', false)`
