-- Claims that are still running have no place in the older table.
delete from call where finished_at is null;

drop function refuse(text, text);
drop index call_tombstone_idx;
alter table call reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);

alter table call
    alter column finished_at set not null,
    drop column lease_until,
    drop column leased;

comment on column call.state is
    'succeeded, or failed for an outcome that belongs to the request and is replayed like an answer.';
comment on column call.attempt is
    'Random token of the attempt that wrote this row. It tells an attempt whose COMMIT got no answer whether this row is its own.';
comment on column call.started_at is
    'When the attempt began, by the clock of the database.';
comment on column call.finished_at is
    'When the answer was ready, by the clock of the database.';
