// Package toolcall holds the words that the packages of txonce share: the [ID] of a call, the [Call] that is being
// made right now, and the [Failure] that is the recorded answer of a call that must not succeed.
//
// [FromContext] is what most callers need: inside a protected handler it returns the current call, with the id under
// which its outcome is recorded. Code that a handler calls may put statements on [Call.AtFinish]: they travel in the
// same round trip as the record and its COMMIT. [Call.Hold] is for package jobs.
//
// The package opens no connection and knows no SQL, no protocol and no other package of txonce. It may import the
// standard library and the types of pgx.
package toolcall
