package txidem

// headTx is what turn 1 also asks in a transaction that is the caller's: which attempt's token was there before, and how
// the transaction sees the world.
const headTx = `coalesce(current_setting('txonce.attempt', true), ''), current_setting('transaction_isolation'),
       `

// sqlReadTx is sqlRead but for a SERIALIZABLE transaction, where reading an absent key and inserting it later makes
// unrelated calls fail each other. The condition has no column, so Postgres decides it before it touches the index.
const sqlReadTx = sqlRead + `
   and current_setting('transaction_isolation') <> 'serializable'`

// sqlReserveTx takes its place there: the insert comes first, and finds out by itself whether the key is taken. What it
// writes is what shall be there if the handler commits by itself; sqlRecordTx replaces it.
const sqlReserveTx = `
insert into {schema}.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer,
                           started_at, finished_at, expires_at, tombstone)
select $1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::smallint, $7::bytea, 'failed', $8::uuid, $9::bytea,
       now(), clock_timestamp(), clock_timestamp() + make_interval(secs => $10::double precision), $11::boolean
 where current_setting('transaction_isolation') = 'serializable' and pg_try_advisory_xact_lock($12::bigint)
returning ctid::text`

// sqlRecordTx finds the row by its place: by its id, it would read the index, and lock more of it than the row.
const sqlRecordTx = `
update {schema}.call
   set state = 'succeeded', attempt = current_setting('txonce.attempt')::uuid, answer = $3::bytea,
       finished_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => $4::double precision)
 where ctid = $1::text::tid and attempt = $2::uuid
returning (extract(epoch from finished_at) * 1000000)::bigint`

// What a caller's transaction goes through. The name may be in use further out: the latest counts.
const (
	sqlSavepoint  = `savepoint txonce`
	sqlRollbackTo = `rollback to savepoint txonce`
	sqlRelease    = `release savepoint txonce`
	sqlRestore    = `select set_config('txonce.attempt', $1::text, true)`
)
