-- Calls whose claim is committed before their effect, which lies outside the database, and calls in one round trip.

-- A constant default: no row is rewritten.
alter table call
    add column leased boolean not null default false,
    add column lease_until timestamptz,
    alter column finished_at drop not null;

-- Raises an error with a code of ours. In one round trip only an error keeps the COMMIT behind it from happening.
create function refuse(code text, message text) returns text
    language plpgsql as
$$
begin
    raise exception using errcode = code, message = message;
end
$$;

comment on column call.state is
    'running (a leased call that has not ended), succeeded, or failed for an outcome that belongs to the request and is replayed like an answer.';
comment on column call.attempt is
    'Random token of the attempt that wrote this row, or that holds its lease. Who does not have it changes nothing.';
comment on column call.started_at is
    'When the first attempt began, by the clock of the database. With the id it names the intent: attempts that take a lease over keep it.';
comment on column call.finished_at is
    'When the answer was ready, by the clock of the database. Null while a leased call runs.';
comment on column call.leased is
    'The effect lies outside the database: the row was committed before it, as a claim.';
comment on column call.lease_until is
    'While a leased call runs: until when nobody else may. Not in an index, so that renewing it moves no row.';
comment on function refuse(text, text) is
    'Raises an error with the given SQLSTATE and message.';

-- The sweeper's other way in. In the index above, records that keep their answer until they are emptied are few among many:
-- with none of them, and statistics that were some minutes old, Postgres read the whole table instead.
create index call_tombstone_idx on call (expires_at) where tombstone and octet_length(answer) > 0;

-- Each record is deleted one day. Until a vacuum, the sweeper goes through index entries of those that are gone: at the default
-- of a fifth of the table that are two million of ten.
alter table call set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
