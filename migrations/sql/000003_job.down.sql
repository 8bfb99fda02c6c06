-- Records that wait for a job would wait for ever.
update call set expires_at = clock_timestamp() + interval '1 day' where expires_at is null;

drop table job;
