package jobs

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/handlertx"
)

// queries is the SQL of the package, with the schema filled in. Parameters have casts and times travel as microseconds, for
// pgx's modes that know no types.
type queries struct {
	submit                           string
	begin, look                      string
	beat                             string
	open, lock, restore              string
	done, let, settled               string
	retry, end                       string
	status                           string
	cancelLook, cancelAsk, cancelEnd string
	due, dueOne, check, ring, endDue string
	expire, orphans                  string
}

func queriesFor(schema string) queries {
	in := func(sql string) string {
		sql = strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize())
		return strings.NewReplacer("{epoch}", `timestamptz 'epoch'`, "{us}", `interval '1 microsecond'`, "{hex}", sqlHex).Replace(sql)
	}
	return queries{
		submit: in(sqlSubmit),
		begin:  in(sqlBegin), look: in(sqlLook),
		beat: in(sqlBeat),
		open: sqlOpen, lock: in(sqlLock), restore: sqlRestore,
		done: in(sqlDone), let: in(sqlLet), settled: in(sqlSettled),
		retry: in(sqlRetry), end: in(sqlEnd),
		status:     in(sqlStatus),
		cancelLook: in(sqlCancelLook), cancelAsk: in(sqlCancelAsk), cancelEnd: in(sqlCancelEnd),
		due: in(sqlDue), dueOne: in(sqlDueOne), check: in(sqlCheck), ring: in(sqlRing), endDue: in(sqlEndDue),
		expire: in(sqlExpire), orphans: in(sqlOrphans),
	}
}

// sqlSubmit writes the job of a doorbell whose id it is given, or that the statement in front of it has hung. Inside a protected call the transaction shows the token
// that the call's record will have; in another transaction there is none, which is what the result tells.
const sqlSubmit = `
insert into {schema}.job (id, scope, kind, queue, priority, state, args, call, call_attempt, call_keep, keep, bell, max_attempts,
                          created_at, run_at, deadline, check_at)
select $1::uuid, $2::text, $3::text, $4::text, $5::smallint, 'queued', $6::bytea,
       $7::uuid, case when $7::uuid is not null then token end, make_interval(secs => $8::double precision),
       make_interval(secs => $9::double precision), coalesce($10::bigint, lastval()), $11::integer,
       clock_timestamp(), at, ends, least(at + make_interval(secs => $15::double precision), ends)
  from (select nullif(current_setting('txonce.attempt', true), '')::uuid as token,
               coalesce({epoch} + $12::bigint * {us}, clock_timestamp()) as at) due,
       lateral (select coalesce({epoch} + $13::bigint * {us}, at + make_interval(secs => $14::double precision)) as ends) d
returning call_attempt is not null, bell`

// sqlQuick bounds the wait for a row that somebody else is looking at, and lets what begins an attempt not wait for the disk:
// should it be lost in a crash, the attempt cannot commit.
const sqlQuick = `select set_config('lock_timeout', '1000', true), set_config('synchronous_commit', 'off', true)`

// sqlFound is what is read of a job whose doorbell rang.
const sqlFound = `kind, scope, state, attempts, max_attempts, cancel_at is not null,
       (lease_until > clock_timestamp()) is true, (deadline <= clock_timestamp()) is true,
       (extract(epoch from greatest(run_at - clock_timestamp(), interval '0')) * 1000000)::bigint,
       coalesce((extract(epoch from deadline - clock_timestamp()) * 1000000)::bigint, 0),
       (extract(epoch from created_at) * 1000000)::bigint, call is not null, args, {hex}`

// sqlBegin begins an attempt, if the job may have one. A first attempt never begins before its time; a later one may, for who
// rings early has a reason.
const sqlBegin = `
update {schema}.job
   set state = 'running', attempt = $2::uuid, attempts = attempts + 1,
       lease_until = clock_timestamp() + make_interval(secs => $3::double precision),
       check_at = clock_timestamp() + make_interval(secs => $3::double precision),
       started_at = coalesce(started_at, clock_timestamp()), progress = null, message = '', progress_at = null
 where id = $1::uuid and kind = $4::text and finished_at is null and cancel_at is null
   and (lease_until <= clock_timestamp()) is not false and attempts < max_attempts
   and (deadline > clock_timestamp()) is not false and (attempts > 0 or run_at <= clock_timestamp())
returning ` + sqlFound

// sqlLook reads the job of which sqlBegin has begun no attempt.
const sqlLook = `
select ` + sqlFound + `
  from {schema}.job
 where id = $1::uuid`

// sqlBeat renews the leases of a process' attempts and writes what they report. It waits for no row: one that is locked is
// being committed, which the lock protects as well. It says of each attempt that still has its job whether it is to be
// cancelled. A lease that has run out while nobody took the job over is as good as new: the token is the fence.
const sqlBeat = `
with said as (
    select l.*
      from unnest($1::text[]::uuid[], $2::text[]::uuid[], $4::text[]::real[], $5::text[]) as l (id, attempt, progress, message)
), mine as (
    select j.id, j.attempt, j.cancel_at is not null as cancelled
      from {schema}.job j
      join said on said.id = j.id and said.attempt = j.attempt
     where j.state = 'running'
), free as (
    select j.id
      from {schema}.job j
      join mine on mine.id = j.id
       for update of j skip locked
), renewed as (
    update {schema}.job j
       set lease_until = clock_timestamp() + make_interval(secs => $3::double precision),
           progress = coalesce(said.progress, j.progress),
           message = case when said.progress is null then j.message else said.message end,
           progress_at = case when said.progress is null then j.progress_at else clock_timestamp() end
      from said
     where j.id = said.id and j.attempt = said.attempt and j.state = 'running' and j.id in (select id from free)
    returning j.attempt
)
select mine.attempt::text, mine.cancelled, exists (select from renewed where renewed.attempt = mine.attempt)
  from mine`

// sqlOpen prepares the transaction of a commit half: the token that only this transaction can show, what makes Postgres end
// the transaction of a worker that vanished, and a bound for the wait for the job's row.
const sqlOpen = `
select set_config('txonce.attempt', $1::text, true), set_config('idle_in_transaction_session_timeout', $3::text, true),
       ` + handlertx.SettingsUnknown + `,
       set_config('txonce.lock_timeout', current_setting('lock_timeout'), true), set_config('lock_timeout', $2::text, true)`

// sqlLock takes the job's row for the rest of the transaction: the fence. It waits, for the process' own renewals have the row
// for a moment; nobody who has it for longer leaves this attempt a job.
const sqlLock = `
select state = 'running' and (attempt = $2::uuid) is true, cancel_at is not null, (deadline <= clock_timestamp()) is true
  from {schema}.job
 where id = $1::uuid
   for update`

const sqlRestore = `select set_config('lock_timeout', current_setting('txonce.lock_timeout'), true)`

// sqlGuard fails when this is not the transaction that sqlOpen prepared.
const sqlGuard = `select current_setting('txonce.attempt')::uuid`

// sqlDone ends the job with its result. Reading the token from the transaction's own setting makes it fail when the commit
// function ended the transaction behind our back. It raises where it finds no such job, and where the deadline passed in the
// commit function: COMMIT is in the same round trip.
const sqlDone = `
with done as (
    update {schema}.job
       set state = 'succeeded', answer = $2::bytea, finished_at = clock_timestamp(), lease_until = null,
           expires_at = clock_timestamp() + greatest(keep, call_keep)
     where id = $1::uuid and attempt = current_setting('txonce.attempt')::uuid and state = 'running'
       and (deadline > clock_timestamp()) is not false
    returning true as it
)
select coalesce((select it from done),
                (select {schema}.refuse('` + codeOverdue + `', 'the deadline of the job has passed')::boolean
                   from {schema}.job
                  where id = $1::uuid and attempt = current_setting('txonce.attempt')::uuid and state = 'running'),
                {schema}.refuse('` + codeNotOurs + `', 'the job belongs to another attempt')::boolean)`

// sqlLet lets the record of the call that submitted the job go, when this was the last job of the call: it is kept as long as
// after any other call. A job of an earlier record of the same call, which was forgotten, does not count.
const sqlLet = `
update {schema}.call c
   set expires_at = clock_timestamp() + j.call_keep
  from {schema}.job j
 where j.id = $1::uuid and j.finished_at is not null and c.id = j.call and c.expires_at is null and c.finished_at is not null
   and (j.call_attempt is null or c.attempt = j.call_attempt)
   and not exists (select from {schema}.job other
                    where other.call = j.call and other.finished_at is null
                      and (other.call_attempt is null or other.call_attempt = c.attempt))`

// sqlSettled reads the job once no transaction that has its row is open any more.
const sqlSettled = `select state, attempt from {schema}.job where id = $1::uuid for update`

// sqlRetry ends an attempt that is not the last one. The sweeper looks at once at a job that was to be cancelled.
const sqlRetry = `
update {schema}.job
   set state = 'queued', lease_until = null, attempts = attempts - $3::integer, last_error = $4::text,
       run_at = clock_timestamp() + make_interval(secs => $5::double precision),
       check_at = least(clock_timestamp() + make_interval(secs => $5::double precision + $6::double precision), deadline, cancel_at),
       progress = null, message = '', progress_at = null
 where id = $1::uuid and attempt = $2::uuid and state = 'running'`

// sqlEnd ends the job of an attempt without a result.
const sqlEnd = `
update {schema}.job
   set state = $3::text, answer = $4::bytea, last_error = $5::text, finished_at = clock_timestamp(), lease_until = null,
       expires_at = clock_timestamp() + greatest(keep, call_keep)
 where id = $1::uuid and attempt = $2::uuid and state = 'running'`

// sqlHex sees to it that bytea is hex. It is that as a rule, and to set it takes longer than to look.
const sqlHex = `case when current_setting('bytea_output') <> 'hex' then set_config('bytea_output', 'hex', true) end`

// sqlStatus reads what may be told about jobs to those who ask, and what has to be known to tell it. Postgres must not see how many
// there are: it would plan each time anew, and find the same plan. Settings are looked at
// once for all. A double has the microseconds of this century, and costs less than a numeric.
const sqlStatus = `
select j.id, j.scope, kind, state, answer,
       coalesce((date_part('epoch', finished_at) * 1000000)::bigint, 0), (date_part('epoch', created_at) * 1000000)::bigint,
       coalesce((date_part('epoch', started_at) * 1000000)::bigint, 0), (date_part('epoch', run_at) * 1000000)::bigint,
       coalesce((date_part('epoch', deadline) * 1000000)::bigint, 0),
       attempts, max_attempts, cancel_at is not null, progress, message,
       coalesce((date_part('epoch', progress_at) * 1000000)::bigint, 0),
       coalesce(bell, 0), (lease_until > clock_timestamp()) is true, (deadline <= clock_timestamp()) is true, synchronous, hex
  from (select $1::text[]::uuid[] as ids, $2::text[] as scopes,
               current_setting('synchronous_standby_names') <> '' and not pg_is_in_recovery() as synchronous, {hex} as hex
        offset 0) given,
       unnest(ids, scopes) as ask (id, scope)
  join {schema}.job j on j.id = ask.id and j.scope = ask.scope
 where (expires_at <= clock_timestamp()) is not true`

// sqlStandby asks whether the server may lag behind the one that jobs are submitted to.
const sqlStandby = `select pg_is_in_recovery()`

// sqlConfirm commits a WAL record that means nothing: it is acknowledged after all that could be seen before it.
const sqlConfirm = `select pg_logical_emit_message(true, 'txonce', '')`

// sqlCancelLook takes the row of the job that is to be cancelled.
const sqlCancelLook = `
select state, coalesce(bell, 0), (lease_until > clock_timestamp()) is true
  from {schema}.job
 where id = $1::uuid and scope = $2::text and (expires_at <= clock_timestamp()) is not true
   for update`

const sqlCancelAsk = `update {schema}.job set cancel_at = coalesce(cancel_at, clock_timestamp()) where id = $1::uuid`

const sqlCancelEnd = `
update {schema}.job
   set state = 'cancelled', cancel_at = coalesce(cancel_at, clock_timestamp()), finished_at = clock_timestamp(), lease_until = null,
       expires_at = clock_timestamp() + greatest(keep, call_keep)
 where id = $1::uuid and finished_at is null`

// sqlOfDue is what is read of a job that is looked at.
const sqlOfDue = `
select id, kind, queue, priority, attempts, max_attempts, coalesce(bell, 0), cancel_at is not null,
       (lease_until > clock_timestamp()) is true, (deadline <= clock_timestamp()) is true,
       (extract(epoch from greatest(run_at - clock_timestamp(), interval '0')) * 1000000)::bigint,
       (extract(epoch from greatest(clock_timestamp() - run_at, interval '0')) * 1000000)::bigint,
       coalesce((extract(epoch from lease_until - clock_timestamp()) * 1000000)::bigint, 0),
       (extract(epoch from clock_timestamp()) * 1000000)::bigint, set_config('lock_timeout', '5000', true)
  from {schema}.job`

// sqlDue takes jobs that are to be looked at. Those that run come in an order of their own: a long queue must not delay them.
const sqlDue = sqlOfDue + `
 where state = $1::text and check_at <= now() and finished_at is null and kind = any($2::text[])
 order by check_at
 limit $3::integer
   for update skip locked`

// sqlDueOne takes one job.
const sqlDueOne = sqlOfDue + `
 where id = $1::uuid and finished_at is null and kind = any($2::text[])
   for update skip locked`

// sqlCheck puts off the next look.
const sqlCheck = `
update {schema}.job
   set check_at = case when $3::boolean then least(at, deadline) else at end
  from (select clock_timestamp() + make_interval(secs => $2::double precision) as at) next
 where id = $1::uuid and finished_at is null`

// sqlRing notes the new doorbell.
const sqlRing = `
update {schema}.job
   set bell = $2::bigint, check_at = clock_timestamp() + make_interval(secs => $3::double precision)
 where id = $1::uuid and finished_at is null`

// sqlEndDue ends a job whose row is held.
const sqlEndDue = `
update {schema}.job
   set state = $2::text, answer = $3::bytea, last_error = case when $4::text = '' then last_error else $4::text end,
       finished_at = clock_timestamp(), lease_until = null, expires_at = clock_timestamp() + greatest(keep, call_keep)
 where id = $1::uuid and finished_at is null`

// sqlExpire removes jobs whose retention is over.
const sqlExpire = `
delete from {schema}.job
 where ctid = any(array(select ctid
                          from {schema}.job
                         where expires_at <= now()
                         order by expires_at
                         limit $1::integer
                           for update skip locked))
   and expires_at <= now()`

// sqlOrphans lets records go that are held by no job that could still end. The longest of the calls' own retentions is with
// the jobs; where those are gone, it is a day.
const sqlOrphans = `
update {schema}.call c
   set expires_at = clock_timestamp() + coalesce((select max(j.call_keep) from {schema}.job j
                                                   where j.call = c.id and (j.call_attempt is null or j.call_attempt = c.attempt)), interval '1 day')
 where c.id = any(array(select o.id
                          from {schema}.call o
                         where o.expires_at is null and o.finished_at is not null and (not o.tombstone or octet_length(o.answer) > 0)
                           and not exists (select from {schema}.job j
                                            where j.call = o.id and j.finished_at is null
                                              and (j.call_attempt is null or j.call_attempt = o.attempt))
                         limit $1::integer
                           for update skip locked))
   and c.expires_at is null`
