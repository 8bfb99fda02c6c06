package toolcall

// Failure is an outcome that is a property of the request: the same request would fail in the same way again. It is
// recorded and replayed like an answer, and nothing that the handler wrote is kept (R06). Any other error is a property
// of the moment: nothing is recorded and the next call runs.
type Failure struct {
	Code    string `json:"code"`    // for programs, such as "bad_amount"
	Message string `json:"message"` // for people and models
}

// Error returns the message behind the code. A nil Failure, as in the Status of a call that did not fail, prints as <nil>.
func (f *Failure) Error() string {
	if f == nil {
		return "<nil>"
	}
	if f.Code == "" {
		return f.Message
	}
	return f.Code + ": " + f.Message
}
