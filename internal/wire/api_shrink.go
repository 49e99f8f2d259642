package wire

import "encoding/json"

// This file implements the types of shrinking a case that only the client can execute: the engine proposes, the client
// tries.

// ShrinkRequest asks for the next simpler case to try. The engine keeps nothing: the request has all answers so far.
type ShrinkRequest struct {
	Config string          `json:"config,omitempty"`
	Case   string          `json:"case"`             // canonical text of the failing case
	Schema json.RawMessage `json:"schema,omitempty"` // of an op that is neither configured nor in the catalogue
	// Tried has an entry for every case that was proposed: whether it fails in the same way.
	Tried    map[string]bool `json:"tried,omitempty"`
	Strategy string          `json:"strategy,omitempty"`  // binary-search-dims or all; "": all
	MaxIters int             `json:"max_iters,omitempty"` // cases that may be proposed; 0: 100
	AnyDType bool            `json:"any_dtype,omitempty"` // cases of simpler dtypes are proposed, too
}

// ShrinkReply has the next case, or none where the search is over.
type ShrinkReply struct {
	Next string `json:"next,omitempty"`
	Best string `json:"best"` // the simplest case known to fail
}
