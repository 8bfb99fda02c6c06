package txidem

// sqlLease writes the claim of a leased call, if nobody runs the call and there is no record.
// The update that never happens has Postgres refuse, in front of the effect, a role that could not record it.
const sqlLease = `
with granted as (
    update {schema}.call
       set fingerprint = fingerprint, canon = canon, fields = fields, state = state, attempt = attempt, answer = answer,
           finished_at = finished_at, expires_at = expires_at, tombstone = tombstone, lease_until = lease_until
     where false
)
insert into {schema}.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer,
                           started_at, expires_at, tombstone, leased, lease_until)
select $1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::smallint, $7::bytea, 'running', $8::uuid, '',
       clock_timestamp(), clock_timestamp() + make_interval(secs => $10::double precision),
       $11::boolean, true, clock_timestamp() + make_interval(secs => $9::double precision)
 where pg_try_advisory_xact_lock($12::bigint)
on conflict (id) do nothing
returning (extract(epoch from started_at) * 1000000)::bigint`

// sqlLeaseForget is sqlForget for a claim that may not have the call's lock: a call that runs over the expired record in a
// transaction of its own has removed it there, and would be waited for.
const sqlLeaseForget = sqlForget + ` and pg_try_advisory_xact_lock($3::bigint)`

// sqlTakeOver takes a lease that has run out from the attempt that had it. The intent is the same: started_at stays. The
// arguments have been compared; they are written anew because their field hashes are salted with the attempt.
const sqlTakeOver = `
update {schema}.call
   set attempt = $2::uuid, fingerprint = $4::bytea, canon = $5::smallint, fields = $6::bytea, tombstone = $9::boolean,
       expires_at = started_at + make_interval(secs => $8::double precision),
       lease_until = clock_timestamp() + make_interval(secs => $7::double precision)
 where id = $1::uuid and attempt = $3::uuid and state = 'running' and lease_until <= clock_timestamp()
returning (extract(epoch from started_at) * 1000000)::bigint`

// sqlBoundIdle lets Postgres end the transaction of a client that vanished in the middle of it.
const sqlBoundIdle = `select set_config('idle_in_transaction_session_timeout', $1::text, true)`

// sqlRenew renews leases, and says of each that is still held whether it did: those it did not get are locked by their
// owner, who is ending them. A lease that has run out, or was given up while this was under way, is lost; only who has just
// found its claim may have it back. Arrays of text, for pgx's modes without descriptions know no array of uuid.
const sqlRenew = `
with mine as (
    select c.id, c.attempt, l.secs
      from unnest($1::text[]::uuid[], $2::text[]::uuid[], $3::text[]::double precision[]) as l (id, attempt, secs)
      join {schema}.call c on c.id = l.id and c.attempt = l.attempt and c.state = 'running'
       and (c.lease_until > clock_timestamp() or $4::boolean)
), free as (
    select c.id
      from {schema}.call c
      join mine on mine.id = c.id and mine.attempt = c.attempt
       for update of c skip locked
), renewed as (
    update {schema}.call c
       set lease_until = clock_timestamp() + make_interval(secs => mine.secs)
      from mine
     where c.id = mine.id and c.attempt = mine.attempt and c.state = 'running' and c.id in (select id from free)
       and (c.lease_until > clock_timestamp() or $4::boolean)
    returning c.attempt
)
select mine.attempt::text, exists (select from renewed where renewed.attempt = mine.attempt)
  from mine`

// sqlLeaseDone ends a leased call with its answer or its failure, if the attempt still has it. Otherwise it raises: what
// the handler queued and COMMIT share the round trip.
const sqlLeaseDone = `
with done as (
    update {schema}.call
       set state = $3::text, answer = $4::bytea, finished_at = clock_timestamp(), lease_until = null,
           expires_at = clock_timestamp() + make_interval(secs => $5::double precision)
     where id = $1::uuid and attempt = $2::uuid and state = 'running'
    returning (extract(epoch from finished_at) * 1000000)::bigint as at
)
select coalesce((select at from done), {schema}.refuse('` + codeLeaseLost + `', 'the lease is lost')::bigint)`

// sqlLeaseEnd lets a lease run out now: what its attempt did is not known, and what comes next is the policy's to say.
const sqlLeaseEnd = `
update {schema}.call
   set lease_until = clock_timestamp()
 where id = $1::uuid and attempt = $2::uuid and state = 'running'`

// sqlLeaseFree removes the claim of an attempt that is known to have done nothing.
const sqlLeaseFree = `
delete from {schema}.call
 where id = $1::uuid and attempt = $2::uuid and state = 'running'`
