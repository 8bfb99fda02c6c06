package txidem

// sqlLive counts the live records of a scope, up to a limit. Without the index it would read the table, and does not.
const sqlLive = `
select case when to_regclass('{schema}.call_scope_idx') is null then -1
            else (select count(*)
                    from (select
                            from {schema}.call
                           where scope = $1::text and (expires_at > clock_timestamp() or expires_at is null)
                           limit $2::integer) as live) end`

// sqlForgetScope removes what a scope has in a part of the table: there need be no index on the scope, so the table is
// read once, some blocks at a time.
const sqlForgetScope = `
delete from {schema}.call
 where ctid >= format('(%s,0)', $2::bigint)::tid and ctid < format('(%s,0)', $3::bigint)::tid and scope = $1::text`

// sqlBlocks is the size of the table.
const sqlBlocks = `
select pg_relation_size('{schema}.call'::regclass) / current_setting('block_size')::bigint`

// sqlExists finds a record that counts: an expired one does where it is never run over.
const sqlExists = `
select 1
  from {schema}.call
 where id = $1::uuid and ($2::boolean or coalesce(` + sqlExpiry + ` > clock_timestamp(), true))`
