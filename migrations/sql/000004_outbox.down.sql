drop table destination;
drop table message_outcome;
drop table message_pending;
drop table message;
