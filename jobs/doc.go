// Package jobs is for tools whose work takes longer than a request may: the tool answers with the id of a job within
// milliseconds, a worker does the work and commits once, and whoever wants to know asks for the status. The call that is
// retried is one that answers at once; what takes long is a read.
package jobs
