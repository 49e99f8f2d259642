package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// This file implements the types of the HTTP API that concern single cases: replaying, shrinking, listing failures, and
// execution by the client.

// ReproduceRequest runs a case again. Either Seed or Case says which.
type ReproduceRequest struct {
	Config string      `json:"config,omitempty"` // absolute path of gpuemu.toml; "" for none
	Seed   *Seed       `json:"seed,omitempty"`   // of a stored case
	Case   string      `json:"case,omitempty"`   // canonical text; needs no store
	Op     string      `json:"op,omitempty"`     // decides where a seed has cases of several ops
	Python string      `json:"python,omitempty"`
	Env    Environment `json:"env,omitzero"`
}

// ReproduceReply compares what came out now with what is stored.
type ReproduceReply struct {
	Case       string          `json:"case"`             // canonical text
	Result     json.RawMessage `json:"result,omitempty"` // verdict.Result, of now; absent where it cannot be executed here
	Stored     json.RawMessage `json:"stored,omitempty"` // verdict.Result; absent where nothing was stored
	StillFails bool            `json:"still_fails"`
	Executable bool            `json:"executable"`       // false: a client executes this op
	Others     []CaseRef       `json:"others,omitempty"` // stored cases of the same seed that were not run
}

// CaseRef names a stored case. Op, Case and Seed are always there.
type CaseRef struct {
	Campaign string `json:"campaign,omitempty"`
	Index    int    `json:"index,omitempty"`
	Op       string `json:"op"`
	DType    string `json:"dtype,omitempty"`
	Case     string `json:"case"`
	Seed     Seed   `json:"seed"`
	Verdict  string `json:"verdict,omitempty"`
}

// TensorsRequest asks for the inputs of a case. The answer is a safetensors image.
type TensorsRequest struct {
	Config string `json:"config,omitempty"`
	Seed   *Seed  `json:"seed,omitempty"` // of a stored case
	Case   string `json:"case,omitempty"` // canonical text
	Op     string `json:"op,omitempty"`
}

// MinimizeRequest looks for a simpler case that fails in the same way.
type MinimizeRequest struct {
	Config   string      `json:"config,omitempty"`
	Seed     Seed        `json:"seed"`           // of a stored case, unless Case is given
	Case     string      `json:"case,omitempty"` // canonical text
	Op       string      `json:"op,omitempty"`
	Strategy string      `json:"strategy,omitempty"`  // binary-search-dims, binary-search-values or all; "": all
	MaxIters int         `json:"max_iters,omitempty"` // executions of the candidate; 0: 100
	Python   string      `json:"python,omitempty"`
	Env      Environment `json:"env,omitzero"`

	AnyDType   bool `json:"any_dtype,omitempty"`   // a case of a simpler dtype may come out
	AnyFailure bool `json:"any_failure,omitempty"` // a case that fails in another way may come out
}

// MinimizeReply has the case before and after. They are equal where nothing simpler fails.
type MinimizeReply struct {
	Original  json.RawMessage `json:"original"`  // verdict.Result, as it fails now
	Minimized json.RawMessage `json:"minimized"` // verdict.Result, stored under its own seed
	Case      string          `json:"case"`      // canonical text of the minimized case
	// Portable is the text of the smallest such case whose inputs follow from its text, so that it replays without this
	// store; absent where the inputs of the original were given.
	Portable  string `json:"portable,omitempty"`
	Executed  int    `json:"executed"`  // cases that were run
	Unchanged bool   `json:"unchanged"` // nothing smaller fails
}

// FailuresRequest selects stored failures.
type FailuresRequest struct {
	Config     string  `json:"config,omitempty"` // "": of all projects
	Op         string  `json:"op,omitempty"`
	SinceHours float64 `json:"since_hours,omitempty"`
	Limit      int     `json:"limit,omitempty"` // 0: 20

	Env Environment `json:"env,omitzero"` // of the caller: its home bounds the search for gpuemu.toml

	// Open leaves out failures whose case passed later, and all but the newest of one case.
	Open bool `json:"open,omitempty"`
	// Marked asks which of the failures are fixed.
	Marked bool `json:"marked,omitempty"`
	// Brief leaves out what a list does not show: outputs, invariants, findings and stderr.
	Brief bool `json:"brief,omitempty"`
}

// ClearRequest forgets stored failures of one project.
type ClearRequest struct {
	Config string      `json:"config,omitempty"` // "": of results that belong to no project
	Env    Environment `json:"env,omitzero"`     // of the caller: its home bounds the search for gpuemu.toml
	Op     string      `json:"op,omitempty"`     // "": of all ops
}

// ClearReply says how many failures were forgotten.
type ClearReply struct {
	Cleared int `json:"cleared"`
}

// ResultsRequest selects stored results, passed ones too.
type ResultsRequest struct {
	Op    string `json:"op,omitempty"`
	Seed  *Seed  `json:"seed,omitempty"`  // of the case
	Limit int    `json:"limit,omitempty"` // 0: 100
}

// FailuresReply lists stored failures, newest first, without tensors.
type FailuresReply struct {
	Results []json.RawMessage `json:"results"` // verdict.Result
	// Fixed are the positions of those whose case passed later, where Marked asked for them.
	Fixed []int `json:"fixed,omitempty"`
}

// Text is the list as JSON. json.Marshal parses and copies each result once more, which takes as long as to find it.
func (f *FailuresReply) Text() []byte {
	out := append([]byte(`{"results":[`), bytes.Join(rawTexts(f.Results), []byte{','})...)
	if out = append(out, ']'); len(f.Fixed) > 0 {
		out = append(out, `,"fixed":[`...)
		for i, at := range f.Fixed {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(at), 10)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

func rawTexts(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

// CasesRequest asks for cases with their inputs, for a client that executes the candidate itself. The answer is, per
// case, a CaseHeader and the storage of its inputs.
type CasesRequest struct {
	Config   string            `json:"config,omitempty"`
	Op       string            `json:"op"`               // configured, or in the catalogue; may be absent with Case
	Schema   json.RawMessage   `json:"schema,omitempty"` // an op schema, for an op that is neither
	Seed     Seed              `json:"seed"`             // master seed
	Count    int               `json:"count"`
	Start    int               `json:"start,omitempty"` // index of the first case
	Values   string            `json:"values,omitempty"`
	Shapes   string            `json:"shapes,omitempty"`
	DTypes   []string          `json:"dtypes,omitempty"`
	Layouts  []string          `json:"layouts,omitempty"`
	Ranks    []int             `json:"ranks,omitempty"`  // drawn for tensors that may have any
	Dims     map[string][]int  `json:"dims,omitempty"`   // the only sizes of these dimensions
	Attrs    map[string]string `json:"attrs,omitempty"`  // attributes that are not drawn, as text
	Case     string            `json:"case,omitempty"`   // canonical text: this case alone
	Python   string            `json:"python,omitempty"` // interpreter of the reference, as in submissions
	Env      Environment       `json:"env,omitzero"`
	Shared   string            `json:"shared,omitempty"`    // absolute path of a file of the client that takes the images
	MaxBytes int64             `json:"max_bytes,omitempty"` // of images: the case that reaches it is the last; 0: no limit
}

// CaseHeader describes one case. The bytes of the storages follow it, or lie in the shared file.
type CaseHeader struct {
	Index   int             `json:"index"` // that CasesRequest.Start counts from
	Op      string          `json:"op"`
	Case    string          `json:"case"` // canonical text: send it back with the output
	Seed    Seed            `json:"seed"` // of the case
	DType   string          `json:"dtype"`
	Inputs  []View          `json:"inputs"`            // in the order of the schema
	Attrs   json.RawMessage `json:"attrs,omitempty"`   // an object; infinities are numbers too large, NaN is null
	Outputs []OutputSpec    `json:"outputs,omitempty"` // absent where the schema does not say
	Bytes   []int64         `json:"bytes,omitempty"`   // begin and end of the image in the shared file

	Error *Error `json:"error,omitempty"` // the case could not be made, and no other follows; nothing else is set then
}

// OutputSpec is an output that a candidate is expected to return.
type OutputSpec struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
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
	Config    string            `json:"config,omitempty"`
	Op        string            `json:"op"`
	Case      string            `json:"case,omitempty"`
	Schema    json.RawMessage   `json:"schema,omitempty"` // that the case was handed out for, as in CasesRequest
	Seed      *Seed             `json:"seed,omitempty"`
	DType     string            `json:"dtype,omitempty"`  // of a case of given inputs; "": that of the inputs
	Kwargs    map[string]string `json:"kwargs,omitempty"` // attributes
	Python    string            `json:"python,omitempty"` // interpreter of the reference
	Env       Environment       `json:"env,omitzero"`
	Shared    string            `json:"shared,omitempty"`    // absolute path of the file that the image lies in
	Bytes     []int64           `json:"bytes,omitempty"`     // begin and end of the image in that file
	Failure   *CaseFailure      `json:"failure,omitempty"`   // instead of outputs
	Findings  []CaseFinding     `json:"findings,omitempty"`  // what the client saw of the execution
	Tolerance *CaseTolerance    `json:"tolerance,omitempty"` // instead of the rules of the op
	TimeNS    int64             `json:"time_ns,omitempty"`   // that the candidate took
	Store     string            `json:"store,omitempty"`     // all, failures or none; "": all
	// Brief, in the first of many: of results that passed the answer has op, seed and verdict alone.
	Brief bool `json:"brief,omitempty"`
}

// CaseFailure is what a candidate did instead of returning outputs.
type CaseFailure struct {
	Reason  string `json:"reason"` // raised, crashed, missing_package, …
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Trace   string `json:"trace,omitempty"`
}

// CaseFinding is something wrong with an execution that its outputs need not show.
type CaseFinding struct {
	Kind     string `json:"kind"`           // not_fully_written, overrun, input_modified or nondeterministic
	Name     string `json:"name,omitempty"` // of the tensor
	Sentence string `json:"sentence"`
}

// CaseTolerance accepts an error of atol + rtol·|want|.
type CaseTolerance struct {
	ATol float64 `json:"atol"`
	RTol float64 `json:"rtol"`
}

// SubmitReply is the judgement.
type SubmitReply struct {
	Result json.RawMessage `json:"result"` // verdict.Result
}

// SubmissionsReply has one entry per part, in order.
type SubmissionsReply struct {
	Results []Submitted `json:"results"`
}

// Submitted is what came of one part: a result, or why there is none.
type Submitted struct {
	Result json.RawMessage `json:"result,omitempty"` // verdict.Result
	Error  *Error          `json:"error,omitempty"`
}
