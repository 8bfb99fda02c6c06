// Package faults has tests of the whole library against real servers that are ill: killed, frozen, full, with no connection to
// spare, behind a broken network or a pooler, with a clock that is wrong. They run on each Postgres at hand (package servers says
// which), over TCP where that is a container. What can be tested against one local server is tested in txidem, jobs and outbox.
//
// Each test has many callers make calls, in duplicate, and repeat them by key until each has an answer. What they hear on the way is
// held against what is in the tables afterwards: one effect for each key, the same answer for all, no effect of an attempt that was
// said to have none, and nothing left behind.
package faults
