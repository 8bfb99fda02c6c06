-- One row for each finished call: who asked, for what, and which answer was given.
-- Names are unqualified: the runner sets search_path to the configured schema.

-- No check constraints: two of them cost 7-8 % of the server's time per call (each insert compiles them anew). The reader
-- refuses what does not fit.
create table call (
    id          uuid        not null constraint call_pkey primary key,
    scope       text        not null,
    tool        text        not null,
    key         text        not null,
    fingerprint bytea       not null,
    canon       smallint    not null,
    fields      bytea,
    state       text        not null,
    attempt     uuid        not null,
    answer      bytea       not null,
    started_at  timestamptz not null,
    finished_at timestamptz not null,
    expires_at  timestamptz,
    tombstone   boolean     not null default false
);

-- The sweeper's way in. A btree: a BRIN re-reads half the table once retentions mix.
-- Rows without expiry are in it too, so that holds whose job is gone are found; tombstones that have lost their answer are
-- not, or each sweep would go through all of them.
create index call_expires_at_idx on call (expires_at) where not tombstone or octet_length(answer) > 0;

comment on table call is
    'Finished calls. A row is written in the transaction that made the effect, so it exists if and only if the effect does.';
comment on column call.id is
    'Name of the call: a UUID (version 8) made from the SHA-256 of version, scope, tool and key, so it is known before the row exists.';
comment on column call.scope is
    'Who called. Part of the identity; compared on every read, so that nobody sees another caller''s answer.';
comment on column call.tool is
    'What was called: a tool, or an HTTP method and route. Part of the identity; compared on every read.';
comment on column call.key is
    'The idempotency key: x:<given by the caller> or h:<hash of the arguments>. Part of the identity; compared on every read.';
comment on column call.fingerprint is
    'SHA-256 of the canonical arguments that count. The same key with another fingerprint is a mismatch, never a replay.';
comment on column call.canon is
    'Version of the canonical form behind fingerprint and fields: an older row is judged by its own version.';
comment on column call.fields is
    'Short salted hashes of the single fields, to name the ones that differ on a mismatch. Null when the key is derived from the arguments.';
comment on column call.state is
    'succeeded, or failed for an outcome that belongs to the request and is replayed like an answer.';
comment on column call.attempt is
    'Random token of the attempt that wrote this row. It tells an attempt whose COMMIT got no answer whether this row is its own.';
comment on column call.answer is
    'The answer byte for byte as it was first given. Not jsonb, which reorders keys and refuses \u0000.';
comment on column call.started_at is
    'When the attempt began, by the clock of the database.';
comment on column call.finished_at is
    'When the answer was ready, by the clock of the database.';
comment on column call.expires_at is
    'From this moment the row no longer counts and may be deleted. Null while an unfinished job holds the call.';
comment on column call.tombstone is
    'When the row has expired its answer goes but the row stays: the call must never run again.';
