// Package servers gives suites a Postgres of each version at hand that can be killed, stopped and started again at one address.
//
// [AtHand] says what there is: with a container engine, the images that `make pg-image` makes or gets, one place for each version;
// without one, or without images, the local server binaries. A [Place] says in words which of them it is, and suites say it on
// ([RanOn]), so that nobody takes the one for the other. TXONCE_SERVERS=containers makes the second an error, and
// TXONCE_SERVERS=local the first.
//
// [Place.Start] starts a server, or a standby that streams from another one. It ends with [Server.Stop]; what a killed process
// leaves of containers is removed by the next Start, and a local server ends with its process.
//
// [Main] is the TestMain of a suite: it says what the tests ran on, and stops the servers that they shared. [Everywhere] runs a test
// in each place, [Together] is the URL of a primary and its standbys.
//
// It may import internal/devpg, pgx, goleak and testcontainers-go, with the client and the types of the engine's interface that are
// testcontainers' own. It runs on Unix-like systems.
package servers
