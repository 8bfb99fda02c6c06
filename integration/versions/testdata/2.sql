-- A call with an effect outside the database.
insert into txonce.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer, started_at, finished_at, expires_at, leased) values
    ('b03922a0-1fee-8f6e-8462-1753a86c89d8', 'tenant', 'leased', 'x:v2', '\x80cc22a89258de74b641662b7b0c1cc239c79a38366a3a2079e9c8a9d44a5023', 1,
     '\x01016f01036b6579763889dd43', 'succeeded', '53d66438-908d-3012-54b9-b31779cb35b2',
     '\x2236414434344b4736484f453755414956584c585456575534575322', now(), now(), now() + interval '1 day', true);
