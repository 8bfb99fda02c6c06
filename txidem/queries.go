package txidem

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/handlertx"
)

// queries is the SQL of the package, with the schema filled in.
type queries struct {
	schema    string
	lockSpace uint64 // mixed into lock keys

	claims      claims // turn 1
	claimsTx    claims // the same in a caller's transaction
	claimsBatch claims // the same where nobody waits for the answer
	guard       string
	read        string
	readMany    string
	readOne     string
	forget      string
	record      string
	fail        string
	answer      string

	forgetScoped string
	forgetScope  string
	sweep        string
	empty        string

	readTx     string
	reserveTx  string
	recordTx   string
	mustAffect string

	lease       string
	takeOver    string
	renew       string
	leaseDone   string
	leaseEnd    string
	leaseFree   string
	leaseForget string

	live   string
	exists string
	blocks string
}

func queriesFor(schema string) queries {
	in := func(sql string) string { return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize()) }
	space := sha256.Sum256([]byte(schema))
	return queries{
		schema:    schema,
		lockSpace: binary.BigEndian.Uint64(space[:]),

		claims:      newClaims("", sqlTryLock),
		claimsTx:    newClaims(headTx, sqlTryLock),
		claimsBatch: newClaims("", in(sqlMustLock)),
		guard:       sqlGuard,
		read:        in(sqlRead),
		readMany:    in(sqlReadMany),
		readOne:     in(sqlReadOne),
		forget:      in(sqlForget),
		record:      in(sqlRecord),
		fail:        in(sqlFail),
		answer:      in(sqlAnswer),

		forgetScoped: in(sqlForgetScoped),
		forgetScope:  in(sqlForgetScope),
		sweep:        in(sqlSweep),
		empty:        in(sqlEmpty),

		readTx:     in(sqlReadTx),
		reserveTx:  in(sqlReserveTx),
		recordTx:   in(sqlRecordTx),
		mustAffect: in(sqlMustAffect),

		lease:       in(sqlLease),
		takeOver:    in(sqlTakeOver),
		renew:       in(sqlRenew),
		leaseDone:   in(sqlLeaseDone),
		leaseEnd:    in(sqlLeaseEnd),
		leaseFree:   in(sqlLeaseFree),
		leaseForget: in(sqlLeaseForget),

		live:   in(sqlLive),
		exists: in(sqlExists),
		blocks: in(sqlBlocks),
	}
}

// sqlClaim takes the call's lock or fails at once, and leaves settings in the transaction, local ones, that end with it:
// the attempt's token, which only this transaction can show when it writes the record, and those that make Postgres end
// the transaction of a client that vanished: idle in it, and what package handlertx adds. The last columns say whether a commit
// that can be seen may still be waiting for a standby, and which platform the server runs on.
const sqlClaim = `
select {head}{lock},
       set_config('txonce.attempt', $2::text, true),
       set_config('idle_in_transaction_session_timeout', $3::text, true),
       {settings},
       current_setting('synchronous_standby_names') <> '',
       {platform}`

// sqlTryLock is the lock whose answer is read before anything else is sent.
const sqlTryLock = `pg_try_advisory_xact_lock($1::bigint)`

// platform is what a store has learned of its server.
type platform int32

const (
	platformUnknown platform = iota
	platformLinux
	platformOther
)

// claims are the forms of sqlClaim, by platform.
type claims map[platform]string

func newClaims(head, lock string) claims {
	form := func(settings, platform string) string {
		return strings.NewReplacer("{head}", head, "{lock}", lock, "{settings}", settings, "{platform}", platform).Replace(sqlClaim)
	}
	return claims{
		platformUnknown: form(handlertx.SettingsUnknown, handlertx.IsLinux),
		platformLinux:   form(handlertx.SettingsLinux, "true"),
		platformOther:   form(handlertx.SettingsOther, "false"),
	}
}

// sqlGuard fails when this is not the transaction that the claim began. It stands in front of a rollback: what a handler
// committed by itself and then regretted has escaped all the same.
const sqlGuard = `select current_setting('txonce.attempt')::uuid`

// sqlRead is a statement of its own behind sqlClaim: in one statement the snapshot would be older than the lock, and a
// rival that finished in between would be missed. A transaction's own now() may be old, hence clock_timestamp(). Times
// are microseconds and bytea is hex: in pgx's text modes the session's DateStyle and bytea_output would count.
const sqlRead = `
select scope, tool, key, fingerprint, canon, fields, state, attempt,
       case when octet_length(answer) <= $2::integer then answer end,
       coalesce((extract(epoch from finished_at) * 1000000)::bigint, 0),
       coalesce(` + sqlExpiry + ` <= clock_timestamp(), false),
       leased, (lease_until > clock_timestamp()) is true, (extract(epoch from started_at) * 1000000)::bigint,
       ` + sqlHex + `
  from {schema}.call
 where id = $1::uuid`

// sqlHex sees to it that bytea is hex. It is that as a rule, and to set it takes longer than to look.
const sqlHex = `case when current_setting('bytea_output') <> 'hex' then set_config('bytea_output', 'hex', true) end`

// sqlReadOne reads for those who know an id, and sqlReadMany for those who know many: what may be told about the call, and
// no more. A record of another scope is not read: how large it is could be told by the time. Postgres must not see in
// sqlReadMany how many there are: it would plan each time anew, and find the same plan.
// Settings are looked at once for all. A double has the microseconds of this century, and costs less than a numeric.
const (
	sqlReadMany = `
select id, synchronous, ` + sqlOfStatus + `, hex
  from (select $1::text[]::uuid[] as ids, $3::text[] as scopes,
               current_setting('synchronous_standby_names') <> '' as synchronous, ` + sqlHex + ` as hex
        offset 0) given,
       unnest(ids, scopes) as ask (id, scope)
  join {schema}.call using (id, scope)`

	sqlReadOne = `
select id, current_setting('synchronous_standby_names') <> '', ` + sqlOfStatus + `, ` + sqlHex + `
  from {schema}.call
 where id = $1::uuid and scope = $3::text`

	sqlOfStatus = `scope, tool, key, state, case when octet_length(answer) <= $2::integer then answer end,
       coalesce((date_part('epoch', finished_at) * 1000000)::bigint, 0),
       coalesce(` + sqlExpiry + ` <= clock_timestamp(), false),
       (lease_until > clock_timestamp()) is true`
)

// sqlExpiry is when a record expires. For a leased call that has not ended that is counted from the end of its lease, which is
// renewed without touching expires_at and its index: as long after it as the claim was to be kept in the beginning.
const sqlExpiry = `case when lease_until is null then expires_at else lease_until + (expires_at - started_at) end`

// sqlAnswer reads an answer that is too large to travel with each read of its record.
const sqlAnswer = `
select answer, ` + sqlHex + `
  from {schema}.call
 where id = $1::uuid and attempt = $2::uuid`

// sqlForget removes the expired record that the claim has seen, and no other.
const sqlForget = `
delete from {schema}.call
 where id = $1::uuid and attempt = $2::uuid`

// sqlRecord writes the finished record. Reading the token from the transaction's own setting makes it fail when the
// handler ended the transaction behind our back, even where another one is open by now (COMMIT AND CHAIN). The
// primary key is the final arbiter between two callers.
const sqlRecord = `
insert into {schema}.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer,
                           started_at, finished_at, expires_at, tombstone)
values ($1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::smallint, $7::bytea, 'succeeded',
        current_setting('txonce.attempt')::uuid, $8::bytea,
        now(), clock_timestamp(), clock_timestamp() + make_interval(secs => $9::double precision), $10::boolean)
returning (extract(epoch from finished_at) * 1000000)::bigint`

// sqlBeforeLock bounds the wait for the lock and asks whether the server can know the outcome of a transaction at all.
const sqlBeforeLock = `
select pg_is_in_recovery(), set_config('lock_timeout', $1::text, true)`

// sqlLock waits until no transaction of the call is open.
const sqlLock = `select pg_advisory_xact_lock($1::bigint)`

// sqlConfirm commits a WAL record that means nothing.
const sqlConfirm = `select pg_logical_emit_message(true, 'txonce', '')`

// sqlFail writes a failure in a transaction of its own, if nobody else holds or has finished the call by now.
const sqlFail = `
insert into {schema}.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer,
                           started_at, finished_at, expires_at, tombstone)
select $1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::smallint, $7::bytea, 'failed',
       $8::uuid, $9::bytea,
       now(), clock_timestamp(), clock_timestamp() + make_interval(secs => $10::double precision), $11::boolean
 where pg_try_advisory_xact_lock($12::bigint)
on conflict (id) do nothing
returning (extract(epoch from finished_at) * 1000000)::bigint`

// sqlRunning asks whether somebody holds the call's lock, without taking it: a lock that is taken to look is a lock that
// a caller finds taken. Postgres shows a 64-bit key as two unsigned halves, with objsubid 1.
const sqlRunning = `
select exists (select from pg_locks
                where locktype = 'advisory' and granted and objsubid = 1
                  and database = (select oid from pg_database where datname = current_database())
                  and classid = (($1::bigint >> 32) & 4294967295)::oid
                  and objid = ($1::bigint & 4294967295)::oid),
       pg_is_in_recovery(), current_setting('synchronous_standby_names') <> ''`

// sqlRunningMany asks the same for many calls, in one read of the locks, and returns the locks that are held, behind
// whether the server can know who is running.
const sqlRunningMany = `
select pg_is_in_recovery(),
       array(select lock
               from (select (classid::bigint << 32) | objid::bigint as lock
                       from pg_locks
                      where locktype = 'advisory' and granted and objsubid = 1
                        and database = (select oid from pg_database where datname = current_database())) held
              where lock = any($1::bigint[]))`

// sqlForgetScoped removes a record on request.
const sqlForgetScoped = `
delete from {schema}.call
 where id = $1::uuid and scope = $2::text`

// sqlSweep removes expired records. The condition stands outside as well: a record that is being taken over is locked,
// and where the inner query waited for it or found it changed, it is another record by now (a live claim was
// deleted without). now() is the statement's own time here, and unlike clock_timestamp() it can use the index.
const sqlSweep = `
delete from {schema}.call
 where ctid = any(array(select ctid
                          from {schema}.call
                         where expires_at <= now() and ` + sqlExpiry + ` <= now() and not tombstone
                         order by expires_at
                         limit $1::integer
                           for update skip locked))
   and ` + sqlExpiry + ` <= now() and not tombstone`

// sqlEmpty takes the answers from records that stay.
const sqlEmpty = `
update {schema}.call
   set answer = ''
 where ctid = any(array(select ctid
                          from {schema}.call
                         where expires_at <= now() and tombstone and octet_length(answer) > 0
                         order by expires_at
                         limit $1::integer
                           for update skip locked))
   and expires_at <= now() and tombstone and octet_length(answer) > 0`
