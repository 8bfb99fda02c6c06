-- Effects that leave the database: a message commits with the write that it tells of, and a relay delivers it afterwards.
-- Three tables, so that the one that is searched and updated holds nothing but the backlog, in narrow rows.

-- No check constraints, for the reason given with the calls. No foreign keys: they lock the row that they point to.
create table message (
    id           uuid        not null constraint message_pkey primary key,
    seq          bigint      not null generated always as identity,
    scope        text        not null,
    call         uuid,
    tool         text        not null,
    destination  text        not null,
    effect       text        not null,
    key          text        not null,
    ordering_key text collate "C",
    address      text        not null,
    type         text        not null,
    headers      jsonb,
    body         bytea       not null,
    created_at   timestamptz not null
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- From a call to its messages.
create index message_call_idx on message (call) where call is not null;

create table message_pending (
    id            uuid        not null constraint message_pending_pkey primary key,
    seq           bigint      not null,
    destination   text        not null,
    ordering_key  text collate "C",
    due_at        timestamptz not null,
    ends_at       timestamptz,
    attempts      integer     not null default 0,
    token         uuid,
    lease_until   timestamptz,
    begun_at      timestamptz,
    unanswered_at timestamptz,
    dead          boolean     not null default false,
    status        integer     not null default 0,
    provider_id   text        not null default '',
    reason        text        not null default '',
    response      bytea
)
-- Room in each page for claims, which touch no index. Rows live for moments, so the vacuum comes by number, not by share.
with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.1,
      autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000);

-- The relay's way to messages without an ordering key, in the order in which they are due.
create index message_pending_due_idx on message_pending (destination, due_at) where ordering_key is null;

-- Its way to the first message of each ordering key.
create index message_pending_lane_idx on message_pending (destination, ordering_key, seq) where ordering_key is not null;

-- Its way to what is new, while a snapshot that somebody holds makes the other one long.
create index message_pending_seq_idx on message_pending (destination, seq) where ordering_key is not null;

create table message_outcome (
    id          uuid        not null constraint message_outcome_pkey primary key,
    destination text        not null,
    state       text        not null,
    attempts    integer     not null,
    status      integer     not null,
    provider_id text        not null,
    reason      text        not null,
    response    bytea,
    ended_at    timestamptz not null,
    expires_at  timestamptz not null,
    tell_at     timestamptz,
    tellings    integer     not null default 0
)
with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- The sweeper's way in.
create index message_outcome_expires_at_idx on message_outcome (expires_at);

-- To the outcomes that somebody is still to be told of.
create index message_outcome_tell_at_idx on message_outcome (tell_at) where tell_at is not null;

create table destination (
    name         text             not null constraint destination_pkey primary key,
    paused_at    timestamptz,
    paused_for   text             not null default '',
    closed_until timestamptz,
    allowance    double precision not null default 0,
    counted_at   timestamptz
)
with (fillfactor = 50);

comment on table message is
    'Messages that leave the database: one row each, from the transaction that published it until its retention is over. Never updated.';
comment on column message.id is
    'Name of the message, the same in each attempt: a UUID of version 7, made by who published it.';
comment on column message.seq is
    'Number in the order of insertion. Among messages with one ordering key that is the order of commits: their transactions take a lock first.';
comment on column message.scope is
    'Whose call published it. Compared on every read for a caller. Empty outside a call.';
comment on column message.call is
    'The call or the job that published it, if one did.';
comment on column message.tool is
    'The tool of that call.';
comment on column message.destination is
    'Name of the destination.';
comment on column message.effect is
    'What the message is for within its call. The downstream key is derived from it.';
comment on column message.key is
    'The idempotency key that the receiver gets, the same in each attempt.';
comment on column message.ordering_key is
    'Messages to one destination with the same one are delivered one after the other. Null for any order.';
comment on column message.address is
    'Where at the destination, if that has more than one address.';
comment on column message.type is
    'What has happened.';
comment on column message.headers is
    'What goes with the body, by name.';
comment on column message.body is
    'What is delivered, byte for byte.';
comment on column message.created_at is
    'When it was published. All times are by the clock of the database.';
comment on table message_pending is
    'Messages that have not ended: the backlog. A row is deleted when its message has ended.';
comment on column message_pending.id is
    'The message.';
comment on column message_pending.seq is
    'Its number.';
comment on column message_pending.destination is
    'Its destination.';
comment on column message_pending.ordering_key is
    'Its ordering key.';
comment on column message_pending.due_at is
    'When the next attempt is due.';
comment on column message_pending.ends_at is
    'From this moment it is not sent any more.';
comment on column message_pending.attempts is
    'How many attempts have begun.';
comment on column message_pending.token is
    'Random token of the attempt that has the lease. Who does not have it changes nothing.';
comment on column message_pending.lease_until is
    'While an attempt is under way: until when there is no other.';
comment on column message_pending.begun_at is
    'When the last attempt began.';
comment on column message_pending.unanswered_at is
    'When the first attempt began that got no answer, and so may have had its effect.';
comment on column message_pending.dead is
    'It has failed, and stays only to keep the messages behind it waiting.';
comment on column message_pending.status is
    'What the receiver answered last, such as an HTTP status; 0 for nothing.';
comment on column message_pending.provider_id is
    'The receiver''s name for what it did, if it said one.';
comment on column message_pending.reason is
    'Why the last attempt was not taken. For operators.';
comment on column message_pending.response is
    'What the publisher kept of the last answer. For operators.';
comment on table message_outcome is
    'How messages have ended. Written in the transaction that deletes the row of the backlog.';
comment on column message_outcome.id is
    'The message.';
comment on column message_outcome.destination is
    'Its destination.';
comment on column message_outcome.state is
    'delivered, failed, unknown, cancelled or expired. It never changes, but for an operator who has the message sent again.';
comment on column message_outcome.attempts is
    'How many attempts had begun.';
comment on column message_outcome.status is
    'What the receiver answered last; 0 for nothing.';
comment on column message_outcome.provider_id is
    'The receiver''s name for what it did.';
comment on column message_outcome.reason is
    'Why it was not delivered. For operators.';
comment on column message_outcome.response is
    'What the publisher kept of the last answer. For operators.';
comment on column message_outcome.ended_at is
    'When it ended.';
comment on column message_outcome.expires_at is
    'From this moment the rows of the message may be deleted.';
comment on column message_outcome.tell_at is
    'When the application is to be told next. Null when nobody wants to know, or it was told.';
comment on column message_outcome.tellings is
    'How often telling it has failed.';
comment on table destination is
    'What holds for all relays of a destination. No row: nothing does.';
comment on column destination.name is
    'Name of the destination.';
comment on column destination.paused_at is
    'Since when an operator, or a receiver that wants no more, has kept messages back. Null: they go.';
comment on column destination.paused_for is
    'Why.';
comment on column destination.closed_until is
    'Until when the receiver wants to be left alone.';
comment on column destination.allowance is
    'With a rate: how many attempts may begin now.';
comment on column destination.counted_at is
    'When that was counted.';
