package lives

// Exchange is one round trip, in bytes, as far as it has been seen.
type Exchange struct{ Size, Written, Read int }

// None reports whether there was none.
func (e Exchange) None() bool { return e == Exchange{} }

// Unsent reports whether it is ready and nothing of it is written.
func (e Exchange) Unsent() bool { return e.Size > 0 && e.Written == 0 }

// Partly reports whether a part of it is written.
func (e Exchange) Partly() bool { return 0 < e.Written && e.Written < e.Size }

// Sent reports whether all of it is written and nothing of its answer is read.
func (e Exchange) Sent() bool { return e.Size > 0 && e.Written == e.Size && e.Read == 0 }

// Answered reports whether something of its answer is read.
func (e Exchange) Answered() bool { return e.Size > 0 && e.Written == e.Size && e.Read > 0 }
