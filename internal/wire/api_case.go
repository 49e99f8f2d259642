package wire

import "encoding/json"

// This file implements the types of the HTTP API that concern single cases: replaying, shrinking, listing failures, and
// execution by the client.

// ReproduceRequest runs a case again. Either Seed or Case says which.
type ReproduceRequest struct {
	Config string `json:"config,omitempty"` // absolute path of gpuemu.toml; "" for none
	Seed   *Seed  `json:"seed,omitempty"`   // of a stored case
	Case   string `json:"case,omitempty"`   // canonical text; needs no store
	Op     string `json:"op,omitempty"`     // decides where a seed has cases of several ops
	Python string `json:"python,omitempty"`
}

// ReproduceReply compares what came out now with what is stored.
type ReproduceReply struct {
	Result     json.RawMessage `json:"result"`           // verdict.Result, of now
	Stored     json.RawMessage `json:"stored,omitempty"` // verdict.Result; absent where nothing was stored
	StillFails bool            `json:"still_fails"`
	Others     []CaseRef       `json:"others,omitempty"` // stored cases of the same seed that were not run
}

// CaseRef names a stored case.
type CaseRef struct {
	Campaign string `json:"campaign"`
	Index    int    `json:"index"`
	Op       string `json:"op"`
	DType    string `json:"dtype"`
	Case     string `json:"case"`
	Seed     Seed   `json:"seed"`
	Verdict  string `json:"verdict"`
}

// MinimizeRequest looks for a simpler case that fails in the same way.
type MinimizeRequest struct {
	Config   string `json:"config,omitempty"`
	Seed     Seed   `json:"seed"`
	Op       string `json:"op,omitempty"`
	Strategy string `json:"strategy,omitempty"`  // binary-search-dims, binary-search-values or all; "": all
	MaxIters int    `json:"max_iters,omitempty"` // executions of the candidate; 0: 100
	Python   string `json:"python,omitempty"`
}

// MinimizeReply has the case before and after. They are equal where nothing simpler fails.
type MinimizeReply struct {
	Original  json.RawMessage `json:"original"`  // verdict.Result
	Minimized json.RawMessage `json:"minimized"` // verdict.Result, stored under its own seed
	Executed  int             `json:"executed"`  // cases that were run
}

// FailuresReply lists stored failures, newest first, without tensors.
type FailuresReply struct {
	Results []json.RawMessage `json:"results"` // verdict.Result
}

// CasesRequest asks for cases with their inputs, for a client that executes the candidate itself. The answer is, per
// case, a CaseHeader and the storage of its inputs.
type CasesRequest struct {
	Config  string          `json:"config,omitempty"`
	Op      string          `json:"op"`               // configured, or in the catalogue
	Schema  json.RawMessage `json:"schema,omitempty"` // an op schema, for an op that is neither
	Seed    Seed            `json:"seed"`             // master seed
	Count   int             `json:"count"`
	Start   int             `json:"start,omitempty"` // index of the first case
	Values  string          `json:"values,omitempty"`
	Shapes  string          `json:"shapes,omitempty"`
	DTypes  []string        `json:"dtypes,omitempty"`
	Layouts []string        `json:"layouts,omitempty"`
}

// CaseHeader describes one case. The bytes of the storages follow it.
type CaseHeader struct {
	Op     string `json:"op"`
	Case   string `json:"case"` // canonical text: send it back with the output
	Seed   Seed   `json:"seed"` // of the case
	DType  string `json:"dtype"`
	Inputs []View `json:"inputs"` // in the order of the schema
}

// View is a tensor within a storage. Strides and offset count elements and may describe any layout that stays within
// the storage; several views may share one.
type View struct {
	Name    string  `json:"name"`
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Strides []int64 `json:"strides"`
	Offset  int64   `json:"offset"`
	Storage string  `json:"storage"` // name of the tensor in the safetensors image that holds the bytes
}

// SubmitHeader comes with the outputs of a candidate that the client executed. Case, or Op and Seed, says on what.
type SubmitHeader struct {
	Config string            `json:"config,omitempty"`
	Op     string            `json:"op"`
	Case   string            `json:"case,omitempty"`
	Seed   *Seed             `json:"seed,omitempty"`
	Kwargs map[string]string `json:"kwargs,omitempty"` // attributes
}

// SubmitReply is the judgement.
type SubmitReply struct {
	Result json.RawMessage `json:"result"` // verdict.Result
}
