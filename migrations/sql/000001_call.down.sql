drop table call;
