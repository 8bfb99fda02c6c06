package txidem

import "github.com/txonce/txonce/internal/idemkey"

// IntentKey makes the key of a step of a run: the same step has the same key after a crash, on another worker and in
// other words of the model (B, C). Run and step come from the checkpoint that a resumed run starts from; never put
// there what a model or a retry makes anew, such as a tool-call id.
func IntentKey(run, step, tool string) string { return idemkey.Intent(run, step, tool) }

// BusinessKey makes the key of what the call means, such as BusinessKey("refund", order, line): two calls for the same
// thing are one, in whichever run or session they are made, where scope and tool are the same too. Put in whatever makes
// two legitimate calls differ.
func BusinessKey(parts ...string) string { return idemkey.Business(parts...) }
