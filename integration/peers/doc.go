// Package peers tests a server with protected tools against its clients: every way a retry takes, over every transport
// and every protocol revision, with the client of the official MCP Go SDK and with that of mcp-go (M05, M06, M07).
//
//   - matrix_test.go: the same script in each cell of client x transport x revision; which cells cannot be, and why;
//   - loss_test.go: answers that are lost on the way, and clients that leave at each point of a call;
//   - reports_test.go and resend_test.go: duplicates as people have reported them, one test each;
//   - transcript_test.go: what goes over the wire and what a model reads, frozen in testdata (rewrite it by -update);
//   - confirm_test.go, progress_test.go, scope_test.go: confirmation, progress and callers.
//
// The servers are those of the SDK with mcpidem, on a real Postgres. Behind stdio they are processes of their own: this test
// binary once more. The package holds no code but its tests.
package peers
