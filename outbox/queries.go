package outbox

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// queries is the SQL of the package, with the schema filled in. Parameters have casts and times travel as microseconds, for
// pgx's modes that know no types.
type queries struct {
	publish                    string
	claim, claimLanes          string
	news, claimHeads           string
	allow, charge              string
	end, block, again, letBe   string
	closeFor, pauseGone        string
	toTell, tellAgain          string
	lock, cancel               string
	redrive, redriveDead, skip string
	pause, resume              string
	fate, ofCalls              string
	sweep                      string
}

func queriesFor(schema string) queries {
	in := func(sql string) string {
		sql = strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize())
		return strings.NewReplacer("{hex}", `set_config('bytea_output', 'hex', true)`).Replace(sql)
	}
	return queries{
		publish: in(sqlPublish),
		claim:   in(sqlClaim), claimLanes: in(sqlClaimLanes),
		news: in(sqlNews), claimHeads: in(sqlClaimHeads),
		allow: in(sqlAllow), charge: in(sqlCharge),
		end: in(sqlEnd), block: in(sqlBlock), again: in(sqlAgain), letBe: in(sqlLetBe),
		closeFor: in(sqlClose), pauseGone: in(sqlPauseGone),
		toTell: in(sqlToTell), tellAgain: in(sqlTellAgain),
		lock: in(sqlLock), cancel: in(sqlCancel),
		redrive: in(sqlRedrive), redriveDead: in(sqlRedriveDead), skip: in(sqlSkip),
		pause: in(sqlPause), resume: in(sqlResume),
		fate: in(sqlFate), ofCalls: in(sqlOfCalls),
		sweep: in(sqlSweep),
	}
}

// sqlLanes takes the locks of ordering keys, in the order that it is given: with the lock, numbers come in the order of commits (O02).
const sqlLanes = `
select pg_advisory_xact_lock(a, b)
  from unnest($1::integer[], $2::integer[]) as l (a, b)`

const sqlPublish = `
with published as (
    insert into {schema}.message (id, scope, call, tool, destination, effect, key, ordering_key, address, type, headers, body, created_at)
    values ($1::uuid, $2::text, $3::uuid, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::text, $11::text::jsonb, $12::bytea, clock_timestamp())
    returning id, seq, created_at
)
insert into {schema}.message_pending (id, seq, destination, ordering_key, due_at, ends_at)
select id, seq, $5::text, $8::text, created_at + make_interval(secs => $13::double precision), created_at + make_interval(secs => $14::double precision)
  from published`

// sqlOpen is when a destination takes messages: it is neither paused nor closed. It is found out once for a statement.
const sqlOpen = `(select not exists (select from {schema}.destination where name = $1::text and (paused_at is not null or closed_until > now())))`

// sqlFree is a row that may be claimed.
const sqlFree = `not p.dead and p.due_at <= now() and (p.lease_until <= now()) is not false`

// sqlBegin makes an attempt of a row: it is counted here, so that relays that die are counted too (O04). The token of a row whose
// lease has run out belongs to an attempt that got no answer (O06).
const sqlBegin = `
       attempts = p.attempts + 1, token = $2::uuid, lease_until = clock_timestamp() + make_interval(secs => $3::double precision),
       begun_at = clock_timestamp(), unanswered_at = case when p.token is null then p.unanswered_at else coalesce(p.unanswered_at, p.begun_at) end`

// sqlClaimed reads what was claimed. The subquery keeps Postgres from reading the table of messages in another way than by id.
const sqlClaimed = `
select c.id, c.seq, extract(epoch from now() - c.due_at)::double precision, c.attempts, (c.ends_at <= clock_timestamp()) is true,
       coalesce((extract(epoch from clock_timestamp() - c.unanswered_at) * 1000000)::bigint, 0),
       m.scope, m.call, m.tool, m.key, coalesce(m.ordering_key, ''), m.address, m.type, m.headers::text, m.body,
       (extract(epoch from m.created_at) * 1000000)::bigint, {hex}
  from c, lateral (select * from {schema}.message m where m.id = c.id offset 0) m`

// sqlClaim claims messages without an ordering key, those first that have been due for longest. Those that have been due for
// longer than $5 are not looked for.
const sqlClaim = `
with c as (
    update {schema}.message_pending p
       set ` + sqlBegin + `
     where ctid = any(array(select ctid
                              from {schema}.message_pending p
                             where destination = $1::text and ordering_key is null and due_at >= now() - make_interval(secs => $5::double precision) and ` + sqlFree + `
                               and ` + sqlOpen + `
                             order by due_at
                             limit $4::integer
                               for update skip locked))
       and ` + sqlFree + `
    returning p.*
)` + sqlClaimed

// sqlClaimLanes claims the first messages of ordering keys, going from key to key behind $5 until $4 are found or $6 were visited: what
// waits behind the first ones costs nothing. Numbers are in the order of commits, so that what can be seen has no unseen one
// before it. The first column is the last key that was visited, the second whether there may be more.
const sqlClaimLanes = `
with recursive lane as (
    (select p.ordering_key, p.id, ` + sqlFree + ` as free, (` + sqlFree + `)::integer as n
       from {schema}.message_pending p
      where destination = $1::text and ordering_key is not null and ordering_key > $5::text collate "C" and ` + sqlOpen + `
      order by ordering_key, seq
      limit 1)
    union all
    select n.*
      from lane l, lateral (
           select p.ordering_key, p.id, ` + sqlFree + `, l.n + (` + sqlFree + `)::integer
             from {schema}.message_pending p
            where destination = $1::text and ordering_key is not null and ordering_key > l.ordering_key
            order by ordering_key, seq
            limit 1) n
     where l.n < $4::integer
), visited as (
    select * from lane limit $6::integer
), c as (
    update {schema}.message_pending p
       set ` + sqlBegin + `
     where ctid = any(array(select ctid
                              from {schema}.message_pending p
                             where id = any(array(select id from visited where free)) and ` + sqlFree + `
                               for update skip locked))
       and ` + sqlFree + `
    returning p.*
)
select v.last, v.many, r.*
  from (select coalesce(max(ordering_key), '') as last, count(*) = $6::integer or coalesce(max(n) = $4::integer, false) as many from visited) v
  left join (` + sqlClaimed + `) r on true`

// sqlNews finds messages with ordering keys that are newer than $2.
const sqlNews = `
select ordering_key, seq
  from {schema}.message_pending
 where destination = $1::text and ordering_key is not null and seq > $2::bigint
 order by seq
 limit $3::integer`

// sqlClaimHeads claims the first messages of the given keys, up to $4, each of which has nothing pending below its floor. It says of
// each key that has something which message is the first one and in how many seconds that may be claimed.
const sqlClaimHeads = `
with heads as (
    select h.*
      from unnest($5::text[], $6::bigint[]) as a (ordering_key, floor), lateral (
           select p.ordering_key, p.id, p.seq, ` + sqlFree + ` as free,
                  case when p.dead then 3600 else extract(epoch from greatest(p.due_at, p.lease_until, now()) - now()) end as wait
             from {schema}.message_pending p
            where p.destination = $1::text and p.ordering_key is not null and p.ordering_key = a.ordering_key and p.seq > a.floor
            order by p.ordering_key, p.seq
            limit 1) h
     where ` + sqlOpen + `
), c as (
    update {schema}.message_pending p
       set ` + sqlBegin + `
     where ctid = any(array(select ctid
                              from {schema}.message_pending p
                             where id = any(array(select id from heads where free limit $4::integer)) and ` + sqlFree + `
                               for update skip locked))
       and ` + sqlFree + `
    returning p.*
)
select h.ordering_key, h.seq, h.wait::double precision, r.*
  from heads h
  left join (` + sqlClaimed + `) r on r.id = h.id`

// sqlAllow counts up what a destination with a rate may begin, and keeps its row until the claims behind it are paid for.
const sqlAllow = `
insert into {schema}.destination as d (name, allowance, counted_at)
values ($1::text, $3::double precision, clock_timestamp())
    on conflict (name) do update
   set allowance = least($3::double precision, d.allowance + coalesce(extract(epoch from clock_timestamp() - d.counted_at), 1e9)::double precision * $2::double precision),
       counted_at = clock_timestamp()
returning floor(d.allowance)::integer`

// sqlCharge pays for attempts that were begun.
const sqlCharge = `update {schema}.destination set allowance = allowance - $2::integer where name = $1::text`

// sqlPatience is how long the results of many wait for a row that somebody holds.
const sqlPatience = `set local lock_timeout = '2s'`

// sqlEnd ends messages, each if it is still that attempt's: a late result of another one changes nothing (O03).
const sqlEnd = `
with said as (
    select *
      from unnest($1::text[]::uuid[], $2::text[]::uuid[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::bytea[], $8::double precision[], $9::boolean[],
                  $10::integer[])
           as s (id, token, state, status, provider_id, reason, response, keep, tell, uncounted)
), gone as (
    delete from {schema}.message_pending p
     using said s
     where p.id = s.id and p.token = s.token
    returning p.id, p.token, p.destination, p.attempts
)
insert into {schema}.message_outcome (id, destination, state, attempts, status, provider_id, reason, response, ended_at, expires_at, tell_at)
select g.id, g.destination, s.state, g.attempts - s.uncounted, s.status, s.provider_id, s.reason, s.response, clock_timestamp(),
       clock_timestamp() + make_interval(secs => s.keep), case when s.tell then clock_timestamp() end
  from gone g
  join said s on s.id = g.id and s.token = g.token
returning id`

// sqlBlock ends messages that keep those behind them waiting: their rows stay.
const sqlBlock = `
with said as (
    select *
      from unnest($1::text[]::uuid[], $2::text[]::uuid[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::bytea[], $8::double precision[], $9::boolean[],
                  $10::integer[])
           as s (id, token, state, status, provider_id, reason, response, keep, tell, uncounted)
), dead as (
    update {schema}.message_pending p
       set dead = true, token = null, lease_until = null
      from said s
     where p.id = s.id and p.token = s.token
    returning p.id, s.token, p.destination, p.attempts
)
insert into {schema}.message_outcome (id, destination, state, attempts, status, provider_id, reason, response, ended_at, expires_at, tell_at)
select g.id, g.destination, s.state, g.attempts - s.uncounted, s.status, s.provider_id, s.reason, s.response, clock_timestamp(),
       clock_timestamp() + make_interval(secs => s.keep), case when s.tell then clock_timestamp() end
  from dead g
  join said s on s.id = g.id and s.token = g.token
returning id`

// sqlAgain ends attempts behind which there is another one. unanswered: it got no answer; undone: it is known that nothing was
// done so far; stop: it is not sent any more, only asked about.
const sqlAgain = `
update {schema}.message_pending p
   set token = null, lease_until = null,
       due_at = case when p.ends_at > clock_timestamp() and not s.stop then least(p.ends_at, clock_timestamp() + make_interval(secs => s.wait))
                     else clock_timestamp() + make_interval(secs => s.wait) end,
       unanswered_at = case when s.unanswered then coalesce(p.unanswered_at, p.begun_at) when not s.undone then p.unanswered_at end,
       ends_at = case when s.stop then clock_timestamp() else p.ends_at end, status = s.status, provider_id = s.provider_id, reason = s.reason, response = s.response
  from unnest($1::text[]::uuid[], $2::text[]::uuid[], $3::double precision[], $4::boolean[], $5::boolean[], $6::boolean[], $7::integer[],
              $8::text[], $9::text[], $10::bytea[])
       as s (id, token, wait, unanswered, undone, stop, status, provider_id, reason, response)
 where p.id = s.id and p.token = s.token
returning p.id`

// sqlLetBe gives back what was claimed and not begun.
const sqlLetBe = `
update {schema}.message_pending p
   set token = null, lease_until = null, attempts = attempts - 1
  from unnest($1::text[]::uuid[], $2::text[]::uuid[]) as s (id, token)
 where p.id = s.id and p.token = s.token
returning p.id`

// sqlHeld is true while the message $3 is the attempt's with the token $4: a late answer of another one closes nothing (O03).
const sqlHeld = `exists (select from {schema}.message_pending where id = $3::uuid and token = $4::uuid)`

// sqlClose keeps all relays from a destination that wants to be left alone for a while.
const sqlClose = `
insert into {schema}.destination as d (name, closed_until)
select $1::text, clock_timestamp() + make_interval(secs => $2::double precision)
 where ` + sqlHeld + `
    on conflict (name) do update
   set closed_until = greatest(d.closed_until, excluded.closed_until)`

// sqlPauseGone pauses a destination that wants no more messages.
const sqlPauseGone = `
insert into {schema}.destination as d (name, paused_at, paused_for)
select $1::text, clock_timestamp(), $2::text
 where ` + sqlHeld + `
    on conflict (name) do update
   set paused_at = coalesce(d.paused_at, excluded.paused_at), paused_for = case when d.paused_at is null then excluded.paused_for else d.paused_for end`
