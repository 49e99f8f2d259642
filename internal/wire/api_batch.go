package wire

import "encoding/json"

// This file implements the types of the HTTP API for batches: many cases of few forms, which one message describes in
// columns. What all cases of a form have in common is said once.

// BatchRequest asks for a batch of cases. Shared must be set.
type BatchRequest struct {
	CasesRequest
	Zone int               `json:"zone"` // bytes of a pattern before and behind each storage, a multiple of 256
	Fill map[string]string `json:"fill"` // the pattern by dtype, hexadecimal; zeros where there is none
}

// Batch is a batch of cases: case Start+i has the form Forms[Form[i]], the seed Seeds[i], and its inputs begin at byte
// Begin[i] of the shared file.
type Batch struct {
	Forms []CaseForm `json:"forms"`
	Form  []int      `json:"form"`
	Seeds []string   `json:"seeds"` // decimal
	Begin []int64    `json:"begin"` // multiples of 256

	Error *Error `json:"error,omitempty"` // the case behind the last one could not be made
}

// CaseForm is what cases have in common that differ in their seed alone.
type CaseForm struct {
	Op      string          `json:"op"`
	Case    []string        `json:"case"` // canonical text before and behind the seed
	DType   string          `json:"dtype"`
	Inputs  []View          `json:"inputs"`
	Places  [][]int64       `json:"places"` // begin, end of the storage of each input, from the beginning of the case
	Size    int64           `json:"size"`   // bytes of all storages with their zones
	Attrs   json.RawMessage `json:"attrs,omitempty"`
	Outputs []OutputSpec    `json:"outputs,omitempty"`
}

// JudgeRequest comes with the outputs of a batch of cases that were handed out. Output tensors lie in the shared file:
// those of case i from byte Begin[i] on, in the order of its form, each at the next multiple of 64 bytes.
type JudgeRequest struct {
	Config    string         `json:"config,omitempty"`
	Python    string         `json:"python,omitempty"`
	Env       Environment    `json:"env,omitzero"`
	Shared    string         `json:"shared"`              // absolute path
	Tolerance *CaseTolerance `json:"tolerance,omitempty"` // instead of the rules of the op
	Store     string         `json:"store,omitempty"`     // all, failures or none; "": all
	Brief     bool           `json:"brief,omitempty"`     // of cases that passed the answer has null
	Forms     []OutputForm   `json:"forms"`
	Form      []int          `json:"form"`
	Seeds     []string       `json:"seeds"` // decimal
	Begin     []int64        `json:"begin"` // rising
	TimeNS    []int64        `json:"time_ns,omitempty"`
}

// OutputForm is what the outputs of some cases have in common.
type OutputForm struct {
	Case    []string     `json:"case"` // canonical text before and behind the seed
	Outputs []OutputSpec `json:"outputs"`
}

// JudgeReply has one entry per case, in order.
type JudgeReply struct {
	Results []*Submitted `json:"results"`
}
