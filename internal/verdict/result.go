// This file implements the result of a case.

package verdict

import (
	"math"
	"slices"
	"time"

	"gpuemu/internal/compare"
)

// Result is what came out of one case. It is the row of the store, the entry of a report and of a baseline.
type Result struct {
	Index   int     `json:"index"` // position in its campaign
	Op      string  `json:"op"`
	DType   string  `json:"dtype"`
	Case    string  `json:"case"` // canonical text; see opspec.Case
	Seed    Seed    `json:"seed"` // of the case
	Quick   bool    `json:"quick,omitempty"`
	Verdict Verdict `json:"verdict"`
	Reason  Reason  `json:"reason,omitempty"`
	// Message is one sentence: what happened, with got and want. Hint says what to do next.
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
	// Note says what was executed in place of what was asked for, such as code for an older architecture.
	Note string `json:"note,omitempty"`

	Candidate string `json:"candidate,omitempty"` // as configured, or ClientSide
	Reference string `json:"reference,omitempty"` // as configured, e.g. builtin:softmax
	// Schema is ClientSide where the case belongs to a schema of the client's: its text and that schema give the inputs.
	Schema string `json:"schema,omitempty"`

	Outputs    []Output     `json:"outputs,omitempty"`
	Invariants []Invariance `json:"invariants,omitempty"`
	// Findings are what was seen of the execution beside its outputs. Their kinds are reasons (FindingReasons).
	Findings []Finding `json:"findings,omitempty"`
	// FindingsDropped are further ones that are not in the list.
	FindingsDropped int `json:"findings_dropped,omitempty"`
	// Numeric is the verdict that the outputs alone deserve, where there are findings, which decide as well.
	Numeric *Verdict `json:"numeric,omitempty"`

	Stderr string `json:"stderr,omitempty"` // tail of what the candidate (or the failing reference) printed
	// Inputs is the key of the inputs in the store; "" where they are regenerated from Case.
	Inputs string `json:"inputs,omitempty"`
	// ShrunkFrom is the seed of the case this one was shrunk from; nil for a generated one.
	ShrunkFrom *Seed `json:"shrunk_from,omitempty"`

	Time          time.Time     `json:"time"` // when the case was finished
	Duration      time.Duration `json:"duration_ns"`
	CandidateTime time.Duration `json:"candidate_ns,omitempty"`
	ReferenceTime time.Duration `json:"reference_ns,omitempty"`
}

// Output is the comparison of one output. Values of elements are text; all numbers are finite (see Saturated).
type Output struct {
	Name   string  `json:"name"`
	DType  string  `json:"dtype"`
	Shape  []int   `json:"shape"`
	Regime string  `json:"regime"` // bound, calibrated, fixed or spread
	ATol   float64 `json:"atol,omitempty"`
	RTol   float64 `json:"rtol,omitempty"`

	Elements     int `json:"elements"`
	Mismatched   int `json:"mismatched"`
	Undetermined int `json:"undetermined,omitempty"`
	Ignored      int `json:"ignored,omitempty"` // NaN or Inf that check_nan or check_inf lets pass
	// Vacuous counts determined elements whose tolerance would accept garbage too (see compare.Vacuity). It is counted
	// where no element is wrong.
	Vacuous int `json:"vacuous,omitempty"`
	// Kinds counts elements by what was seen there (compare.Kind), accepted ones left out.
	Kinds map[string]int `json:"kinds,omitempty"`

	MaxAbs   float64 `json:"max_abs"`
	MeanAbs  float64 `json:"mean_abs"`
	P50Abs   float64 `json:"p50_abs"`
	P90Abs   float64 `json:"p90_abs"`
	P99Abs   float64 `json:"p99_abs"`
	MaxRel   float64 `json:"max_rel"`
	MeanRel  float64 `json:"mean_rel"`
	MaxULP   uint64  `json:"max_ulp"`
	MeanULP  float64 `json:"mean_ulp"`
	MaxRatio float64 `json:"max_ratio"` // largest error over its bound
	MaxWant  float64 `json:"max_want"`

	// Errors are the largest errors by magnitude of the wanted value; only where they were asked for.
	Errors []compare.ErrorBin `json:"errors,omitempty"`

	// Lean counts rows whose errors point to one side, Halves elements that were not rounded to even; see compare.Lean.
	Lean   *compare.Lean `json:"lean,omitempty"`
	Halves *compare.Lean `json:"halves,omitempty"`

	Worst []Element `json:"worst,omitempty"` // only where something is wrong
	Map   string    `json:"map,omitempty"`   // error map as text
	// Constant says that every element of a non-trivial output has the same value: a health check counts them.
	Constant bool `json:"constant,omitempty"`
	// Diagnosis are sentences on the pattern of the errors, the most telling first.
	Diagnosis []Finding `json:"diagnosis,omitempty"`
}

// Finding is one recognised pattern in the errors of an output, or something wrong with an execution.
type Finding struct {
	Kind     string `json:"kind"`
	Name     string `json:"name,omitempty"` // of the tensor, for one on an execution
	Sentence string `json:"sentence"`
	Site     *Site  `json:"site,omitempty"` // of one of the emulator
}

// Site is where the emulator saw something: which thread first, at which instruction. Source and Line are "" and 0
// where the PTX does not name its source.
type Site struct {
	Source      string `json:"source"`
	Line        int    `json:"line"`
	PTX         string `json:"ptx"`
	PTXLine     int    `json:"ptx_line"`
	Block       [3]int `json:"block"`
	Thread      [3]int `json:"thread"`
	Instruction string `json:"instruction"`
	Count       int    `json:"count"` // how often threads did it
}

// CompiledFrom stands before the path of a source in the name of the PTX that was made of it, which is in no file.
const CompiledFrom = "PTX of "

// Element is one wrong element. Values are text: exact, and NaN and Inf survive JSON.
type Element struct {
	Index []int   `json:"index"`
	Kind  string  `json:"kind"`
	Got   string  `json:"got"`
	Want  string  `json:"want"`
	Bound float64 `json:"bound"`
	Abs   float64 `json:"abs"`
	Rel   float64 `json:"rel"`
	ULP   uint64  `json:"ulp"`
}

// Invariance is what one invariant said of one output.
type Invariance struct {
	Output   string `json:"output,omitempty"`
	Name     string `json:"name"`
	Outcome  string `json:"outcome"` // holds, violated, not applicable
	Sentence string `json:"sentence,omitempty"`
}

// MaxAbs returns the largest absolute error over all outputs: the figure that baselines watch.
func (r *Result) MaxAbs() float64 {
	worst := 0.0
	for i := range r.Outputs {
		worst = max(worst, r.Outputs[i].MaxAbs)
	}
	return worst
}

// MaxRel returns the largest relative error over all outputs.
func (r *Result) MaxRel() float64 {
	worst := 0.0
	for i := range r.Outputs {
		worst = max(worst, r.Outputs[i].MaxRel)
	}
	return worst
}

// Saturated returns a copy whose numbers JSON can express: an infinity becomes the largest float64 of its sign, and so
// does NaN, which is no error that could be called small.
func (r *Result) Saturated() *Result {
	c := *r
	c.Outputs = slices.Clone(r.Outputs)
	for i := range c.Outputs {
		o := &c.Outputs[i]
		saturate(&o.ATol, &o.RTol, &o.MaxAbs, &o.MeanAbs, &o.P50Abs, &o.P90Abs, &o.P99Abs, &o.MaxRel, &o.MeanRel, &o.MeanULP,
			&o.MaxRatio, &o.MaxWant)
		o.Worst = slices.Clone(o.Worst)
		for k := range o.Worst {
			saturate(&o.Worst[k].Bound, &o.Worst[k].Abs, &o.Worst[k].Rel)
		}
	}
	return &c
}

func saturate(numbers ...*float64) {
	for _, x := range numbers {
		switch {
		case math.IsNaN(*x) || *x > math.MaxFloat64:
			*x = math.MaxFloat64
		case *x < -math.MaxFloat64:
			*x = -math.MaxFloat64
		}
	}
}

// ClientSide is the candidate of a case that a client executes, and what else of a case only a client knows.
const ClientSide = "client"

// ByClient reports whether a client executed the case. Its kernel and the candidate of the configuration are two
// subjects: a verdict on one replaces none on the other.
func (r *Result) ByClient() bool { return r.Candidate == ClientSide }

// Key identifies the case across runs: what baselines match by.
func (r *Result) Key() string { return r.Op + "\x00" + r.DType + "\x00" + r.Case }
