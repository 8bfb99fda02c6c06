-- A call that published a message, and the message, which waits.
insert into txonce.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer, started_at, finished_at, expires_at) values
    ('6820b671-9ca7-83df-8266-7626e84f6df2', 'tenant', 'message', 'x:v4', '\xb5bb7c3f7bf6d53300fbf53cddef0c25e0f79b1e1e32c38b31f0ae1f03d540ad', 1,
     '\x01016f01036b657976539da0f5', 'succeeded', '8443f773-d962-b174-dafc-49d45002f92a',
     '\x2230316132326262382d383731312d373061622d393036662d35653865383062636264313322', now(), now(), now() + interval '1 day');
insert into txonce.message (id, scope, call, tool, destination, effect, key, address, type, body, created_at) values
    ('01a22bb8-8711-70ab-906f-5e8e80bcbd13', 'tenant', '6820b671-9ca7-83df-8266-7626e84f6df2', 'message', 'shop', 'shop/1',
     'txonce-65c59cb1d61ee58605412fbf7c540aa4', '', '', '\x7634', now());
insert into txonce.message_pending (id, seq, destination, due_at)
    select id, seq, destination, created_at from txonce.message;
