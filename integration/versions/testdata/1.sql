-- Calls as the library wrote them at version 1 of its schema: one that succeeded, one that failed.
insert into txonce.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer, started_at, finished_at, expires_at) values
    ('3d235cc6-46c7-82d2-831a-b89ba73a3d36', 'tenant', 'write', 'x:v1', '\xc784ab868b59be7817065e619cb583e326f895b020570118d37abaf4555b737b', 1,
     '\x01016f01036b65797654566949', 'succeeded', '19cbca17-6a1d-d0d6-6cff-44139012ba16',
     '\x224432594e465a4156555a4b573451493741343755434a3354554c22', now(), now(), now() + interval '1 day'),
    ('b96ce5e1-b81b-8163-87a7-df0892b667ac', 'tenant', 'refuse', 'x:v1', '\xc784ab868b59be7817065e619cb583e326f895b020570118d37abaf4555b737b', 1,
     '\x01016f01036b657976f695539a', 'failed', 'c764d66c-1b61-0f85-649b-e14f902bd1ec',
     '\x7b22636f6465223a226e6f222c226d657373616765223a226e6f74205446414d58355741464c5a4d4648363348334132335036575849227d',
     now(), now(), now() + interval '1 day');
