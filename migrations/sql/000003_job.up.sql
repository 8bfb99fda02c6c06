-- Work that is too slow for a request: a call answers with the id of its job, a worker does the work and commits once.
-- This table is the truth about it. The job queue (River) is a doorbell: it carries the id and says when to look here.

-- No check constraints, for the reason given with the calls.
create table job (
    id           uuid        not null constraint job_pkey primary key,
    scope        text        not null,
    kind         text        not null,
    queue        text        not null,
    priority     smallint    not null,
    state        text        not null,
    args         bytea       not null,
    answer       bytea       not null default '',
    call         uuid,
    call_attempt uuid,
    call_keep    interval,
    keep         interval    not null,
    bell         bigint,
    attempts     integer     not null default 0,
    max_attempts integer     not null,
    attempt      uuid,
    lease_until  timestamptz,
    cancel_at    timestamptz,
    progress     real,
    message      text        not null default '',
    progress_at  timestamptz,
    last_error   text        not null default '',
    created_at   timestamptz not null,
    run_at       timestamptz not null,
    deadline     timestamptz,
    check_at     timestamptz not null,
    started_at   timestamptz,
    finished_at  timestamptz,
    expires_at   timestamptz
)
-- Room in each page for what renews leases and reports progress: neither touches an index.
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- The sweeper's way to jobs that have not ended, in the order in which they are to be looked at.
create index job_check_at_idx on job (state, check_at) where finished_at is null;

-- Its way to those whose time is over.
create index job_expires_at_idx on job (expires_at) where expires_at is not null;

-- From a call to its jobs: those that hold it, and those that say how long it is kept when none does any more.
create index job_call_idx on job (call) where call is not null;

comment on table job is
    'Jobs: one row each, from the transaction that submitted it until its retention is over. It is the truth; the queue''s row is a doorbell.';
comment on column job.id is
    'Name of the job: a UUID of version 7, made by who submitted it.';
comment on column job.scope is
    'Who may see the job. Compared on every read.';
comment on column job.kind is
    'Name of the definition that does the work.';
comment on column job.queue is
    'The queue whose workers the doorbell rings for.';
comment on column job.priority is
    'Of the doorbell: 1, the most urgent, to 4.';
comment on column job.state is
    'queued, running, succeeded, failed or cancelled. One of the last three never changes.';
comment on column job.args is
    'The arguments as JSON, byte for byte. They are nowhere else: the doorbell carries the id only.';
comment on column job.answer is
    'The result, or the failure, as JSON and byte for byte, once the job has ended.';
comment on column job.call is
    'The call that submitted the job and whose record is kept at least until the job has ended.';
comment on column job.call_attempt is
    'Token of that call''s record: a later record of the same call is not this job''s to let go.';
comment on column job.call_keep is
    'How long that record is kept from the end of the job.';
comment on column job.keep is
    'How long this row is kept from the end of the job.';
comment on column job.bell is
    'The queue''s row that was made last for this job.';
comment on column job.attempts is
    'How many attempts have begun. One that was handed back by a worker that stopped does not count.';
comment on column job.max_attempts is
    'With so many attempts, the job fails.';
comment on column job.attempt is
    'Random token of the attempt that has the lease, or that ended the job. Who does not have it changes nothing.';
comment on column job.lease_until is
    'While an attempt runs: until when no other may. Not in an index, so that renewing it moves no row.';
comment on column job.cancel_at is
    'When somebody asked for the job to be cancelled.';
comment on column job.progress is
    'What the running attempt reported last: a fraction from 0 to 1.';
comment on column job.message is
    'What the running attempt reported last, in words.';
comment on column job.progress_at is
    'When it reported it.';
comment on column job.last_error is
    'Why the last attempt did not succeed. For operators: callers are told failures only.';
comment on column job.created_at is
    'When the job was submitted. All times are by the clock of the database.';
comment on column job.run_at is
    'When the next attempt is due. The first one never begins before it.';
comment on column job.deadline is
    'From this moment on no attempt commits.';
comment on column job.check_at is
    'When the sweeper looks at the job next.';
comment on column job.started_at is
    'When the first attempt began.';
comment on column job.finished_at is
    'When the job ended. Null until then.';
comment on column job.expires_at is
    'From this moment the row may be deleted. Null until the job has ended.';
