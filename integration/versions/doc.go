// Package versions has tests of txonce on each version of Postgres at hand: the migrations, up, down and up again, by hand and by five
// processes at once, from each version of the schema with data in it; one small tour through the library; and a database that moves from
// the oldest version of Postgres to the newest by dump and restore.
//
// The servers are those of integration/internal/servers, one for each version, with a database for each test. There is nothing here
// but tests.
package versions
