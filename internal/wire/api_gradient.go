package wire

import "encoding/json"

// This file implements the types of the HTTP API that judge given tensors: gradients of a framework, two tensors that a
// client has, and errors that a tolerance is fitted to.

// GradientsHeader comes with the gradients that a framework's backward pass gave. Case, or Op and the inputs in the
// image, says on what.
type GradientsHeader struct {
	Config    string            `json:"config,omitempty"`
	Op        string            `json:"op,omitempty"` // configured with a reference of the catalogue, or in it
	Case      string            `json:"case,omitempty"`
	Kwargs    map[string]string `json:"kwargs,omitempty"` // attributes
	Python    string            `json:"python,omitempty"`
	Env       Environment       `json:"env,omitzero"`
	Tolerance *CaseTolerance    `json:"tolerance,omitempty"` // instead of the bound of honest code
	Store     string            `json:"store,omitempty"`     // all, failures or none; "", all: failures
}

// CompareHeader comes with tensors to compare: got/NAME with want/NAME.
type CompareHeader struct {
	Name      string         `json:"name,omitempty"`      // of the function, for messages
	DType     string         `json:"dtype,omitempty"`     // whose default tolerance is used; "": that of got
	Tolerance *CaseTolerance `json:"tolerance,omitempty"` // absent: the default of the dtype
	// Errors asks for the largest errors by magnitude of the wanted value: what FitSample takes as bins.
	Errors bool `json:"errors,omitempty"`
}

// CompareReply is the comparison. Nothing of it is stored.
type CompareReply struct {
	Passed  bool              `json:"passed"`
	Verdict string            `json:"verdict"` // pass, fail, error or undecided
	Message string            `json:"message,omitempty"`
	Outputs []json.RawMessage `json:"outputs"` // verdict.Output
}

// FitRequest asks for a tolerance that the errors of correct runs keep. The answer is a Calibration; nothing is stored.
type FitRequest struct {
	DType      string      `json:"dtype"`
	Samples    []FitSample `json:"samples"`
	Percentile *float64    `json:"percentile,omitempty"` // of the errors; absent: 95
	Factor     *float64    `json:"factor,omitempty"`     // times that percentile; absent: 1.5
}

// FitSample is one run of two functions that are both right.
type FitSample struct {
	MaxAbs  float64 `json:"max_abs"`  // largest absolute error
	MaxWant float64 `json:"max_want"` // largest magnitude of a wanted value
	// Bins are the errors by magnitude; absent: an absolute tolerance alone is fitted.
	Bins []ErrorBin `json:"bins,omitempty"`
}

// ErrorBin is the largest error of the elements whose wanted magnitude lies in one binade.
type ErrorBin struct {
	Want   float64 `json:"want"` // least magnitude of the binade; 0: wanted zeros
	MaxAbs float64 `json:"max_abs"`
	Count  int     `json:"count"`
}
