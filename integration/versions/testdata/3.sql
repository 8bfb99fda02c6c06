-- A call that submitted a job, and the job, which waits. Its doorbell is not in the queue any more.
insert into txonce.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer, started_at, finished_at, expires_at) values
    ('6cecdd1a-4f46-81c6-b00c-57408708613c', 'tenant', 'job', 'x:v3', '\xae331fb473499f865b3d7ec5ea1a39a6f03ef8bb32c1ed8ca7c982ea4cf36eab', 1,
     '\x01016f01036b657976b5ecc48f', 'succeeded', '3c080119-ac30-32f5-e128-9768fa5f43f5',
     '\x2230316132326262382d383666642d373530622d383237342d64656530356465333539646422', now(), now(), null);
insert into txonce.job (id, scope, kind, queue, priority, state, args, call, call_attempt, call_keep, keep, bell, max_attempts, created_at, run_at, check_at) values
    ('01a22bb8-86fd-750b-8274-dee05de359dd', 'tenant', 'build', 'default', 1, 'queued', '\x22763322', '6cecdd1a-4f46-81c6-b00c-57408708613c',
     '3c080119-ac30-32f5-e128-9768fa5f43f5', '24:00:00', '168:00:00', 4711, 5, now(), now(), now());
