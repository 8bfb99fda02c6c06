// Package sideconn opens connections beside a pool, for what a busy pool must not starve. [Reserve.With] is all there is.
//
// It may import pgx.
package sideconn
