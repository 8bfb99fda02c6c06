create table refunds (
    id       bigint generated always as identity primary key,
    order_id text   not null,
    cents    bigint not null
);

create table orders (
    id       text   primary key,
    refunded bigint not null default 0
);
