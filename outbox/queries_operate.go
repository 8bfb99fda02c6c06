package outbox

// fateColumns are what a Fate is read from: m is the message, p its row in the backlog, o its outcome, either of which may be absent.
const fateColumns = `
       m.id, m.scope, m.call, m.tool, m.destination, m.effect, m.key, coalesce(m.ordering_key, ''), m.address, m.type,
       (extract(epoch from m.created_at) * 1000000)::bigint,
       coalesce(o.state, case when (p.lease_until > now()) is true then 'delivering' when p.id is not null then 'pending' end, 'unknown'),
       coalesce(o.attempts, p.attempts, 0), coalesce(o.status, p.status, 0), coalesce(o.provider_id, p.provider_id, ''),
       coalesce(o.reason, p.reason, ''), coalesce(o.response, p.response),
       coalesce((extract(epoch from case when o.id is null then p.due_at end) * 1000000)::bigint, 0),
       coalesce((extract(epoch from o.ended_at) * 1000000)::bigint, 0), coalesce(p.dead, false), {hex}`

const sqlFate = `
select ` + fateColumns + `
  from {schema}.message m
  left join {schema}.message_pending p on p.id = m.id
  left join {schema}.message_outcome o on o.id = m.id
 where m.id = $1::uuid`

// sqlOfCalls reads the messages of calls. A call has few; one that has many is told of its first $3.
const sqlOfCalls = `
select ask.place, f.*
  from unnest($1::text[]::uuid[], $2::text[]) with ordinality as ask (id, scope, place),
       lateral (select ` + fateColumns + `
                  from {schema}.message m
                  left join {schema}.message_pending p on p.id = m.id
                  left join {schema}.message_outcome o on o.id = m.id
                 where m.call = ask.id and m.scope = ask.scope
                 order by m.seq
                 limit $3::integer) f
 order by ask.place`

// sqlToTell takes an outcome that the application is to be told of, and notes that it was told, in front of what is written by
// whoever is told: however that transaction commits, it commits the note (O11).
const sqlToTell = `
with o as (
    update {schema}.message_outcome o
       set tell_at = null
     where ctid = any(array(select ctid
                              from {schema}.message_outcome o
                             where tell_at <= now() and destination = any($1::text[])
                             order by tell_at
                             limit 1
                               for update skip locked))
       and tell_at <= now()
    returning o.*
)
select ` + fateColumns + `, o.tellings, set_config('txonce.telling', o.id::text, true)
  from o
  join {schema}.message m on m.id = o.id
  left join {schema}.message_pending p on p.id = o.id`

// sqlStill fails where the transaction is not the one any more in which the message was found: that has been ended by SQL.
const sqlStill = `select 1 / (current_setting('txonce.telling', true) is not distinct from $1::text)::integer`

// sqlTellAgain puts off telling, if nobody has told meanwhile.
const sqlTellAgain = `
update {schema}.message_outcome
   set tell_at = clock_timestamp() + make_interval(secs => $2::double precision), tellings = tellings + 1
 where id = $1::uuid and tell_at is not null`

// sqlLock takes the row of a message that an operator wants to change.
const sqlLock = `
select (p.lease_until > clock_timestamp()) is true, p.unanswered_at is not null or p.token is not null, p.dead
  from {schema}.message_pending p
 where p.id = $1::uuid
   for update`

// sqlCancel ends a message whose row is held.
const sqlCancel = `
with gone as (
    delete from {schema}.message_pending where id = $1::uuid
    returning *
)
insert into {schema}.message_outcome (id, destination, state, attempts, status, provider_id, reason, response, ended_at, expires_at, tell_at)
select id, destination, $2::text, attempts, status, provider_id, $3::text, response, clock_timestamp(),
       clock_timestamp() + make_interval(secs => $4::double precision), case when $5::boolean then clock_timestamp() end
  from gone`

// sqlRedrive puts a message whose outcome is taken away here back into the backlog, at its old place.
const sqlRedrive = `
with dead as (
    delete from {schema}.message_outcome
     where id = $1::uuid and state in ('failed', 'unknown', 'expired')
    returning id, state
)
insert into {schema}.message_pending as p (id, seq, destination, ordering_key, due_at, unanswered_at)
select m.id, m.seq, m.destination, m.ordering_key, clock_timestamp(), null
  from dead
  join {schema}.message m on m.id = dead.id
    on conflict (id) do update
   set dead = false, attempts = 0, due_at = clock_timestamp(), ends_at = null, unanswered_at = null, token = null, lease_until = null`

// sqlRedriveDead names those that have failed.
const sqlRedriveDead = `
select id
  from {schema}.message_outcome
 where destination = $1::text and state = any($2::text[])
 order by id
 limit $3::integer`

// sqlSkip lets the messages behind a dead one pass.
const sqlSkip = `delete from {schema}.message_pending where id = $1::uuid and dead`

const sqlPause = `
insert into {schema}.destination as d (name, paused_at, paused_for)
values ($1::text, clock_timestamp(), $2::text)
    on conflict (name) do update
   set paused_at = coalesce(d.paused_at, excluded.paused_at), paused_for = excluded.paused_for`

const sqlResume = `update {schema}.destination set paused_at = null, paused_for = '', closed_until = null where name = $1::text`

// sqlSweep removes messages whose retention is over, but for those that still keep others waiting.
const sqlSweep = `
with gone as (
    delete from {schema}.message_outcome o
     where ctid = any(array(select ctid
                              from {schema}.message_outcome o
                             where expires_at <= now() and not exists (select from {schema}.message_pending p where p.id = o.id)
                             order by expires_at
                             limit $1::integer
                               for update skip locked))
       and expires_at <= now()
    returning id
)
delete from {schema}.message m
 using gone
 where m.id = gone.id`
