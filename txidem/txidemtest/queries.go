package txidemtest

// sqlLeft names the sessions that hold something: a transaction, a statement that runs, an advisory lock.
const sqlLeft = `
select coalesce(string_agg(format('session %s is %s%s, last statement: %s', a.pid, coalesce(a.state, 'starting'),
                                  case when l.held then ' and holds an advisory lock' end, left(a.query, 200)), '; '), '')
  from pg_stat_activity a,
       lateral (select exists (select from pg_locks where pid = a.pid and locktype = 'advisory') as held) l
 where a.application_name = $1 and (a.xact_start is not null or a.state <> 'idle' or l.held)`
