package txidem

// sqlMustLock raises where sqlTryLock would say no: in one round trip, COMMIT is on its way before anything is read.
const sqlMustLock = `case when pg_try_advisory_xact_lock($1::bigint) then true
            else {schema}.refuse('` + codeBusy + `', 'the call is in progress')::boolean end`

// sqlMustAffect stands around a statement of a batch.
const sqlMustAffect = `
with affected as (
{sql}
returning 1)
select case when count(*) <> {want} then {schema}.refuse('` + codeRowCount + `', count(*) || ' rows, not {want}') end
  from affected`
