// This file implements the summary of a campaign and the exit code that follows from it.

package verdict

import (
	"encoding/json"
	"sort"
	"time"
)

// Counts are numbers of cases. Passed + Failed + NotRun + Undecided = Total; Errors are among the failed.
type Counts struct {
	Total     int `json:"total"`
	Passed    int `json:"passed"`
	Failed    int `json:"failed"`
	Errors    int `json:"errors"`
	NotRun    int `json:"not_run"`
	Undecided int `json:"undecided"`
}

// Add counts one verdict.
func (c *Counts) Add(v Verdict) {
	c.Total++
	switch v {
	case Pass:
		c.Passed++
	case Fail:
		c.Failed++
	case Error:
		c.Failed++
		c.Errors++
	case NotRun:
		c.NotRun++
	default:
		c.Undecided++
	}
}

// OpSummary is what a campaign found of one op.
type OpSummary struct {
	Op string `json:"op"`
	Counts
	Vacuous   int      `json:"vacuous,omitempty"` // undecided cases that garbage would have passed
	DTypes    []string `json:"dtypes"`
	Candidate string   `json:"candidate"`
	Reference string   `json:"reference"`
	MaxAbs    float64  `json:"max_abs"`
	MaxRatio  float64  `json:"max_ratio"` // largest error over its bound or tolerance
	// Bias has the dtypes whose errors have a common sign over all cases; the op fails then.
	Bias []Bias `json:"bias,omitempty"`
}

// Summary is what a campaign found.
type Summary struct {
	Campaign string `json:"campaign"`
	Kind     string `json:"kind"` // test, fuzz, ci, …
	Project  string `json:"project,omitempty"`
	Seed     Seed   `json:"seed"`    // master seed
	Planned  int    `json:"planned"` // cases of this shard; Counts.Total of them are finished
	Complete bool   `json:"complete"`
	// Shard is the part of the campaign that was run, as 2/4; PlannedTotal are the cases of all parts.
	Shard        string `json:"shard,omitempty"`
	PlannedTotal int    `json:"planned_total,omitempty"`

	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Counts
	Ops    []OpSummary   `json:"ops"`
	Health []HealthCheck `json:"health,omitempty"`
	// Groups are the failures by what looks like one bug, in the order in which they were found; nil where none were made.
	Groups []Group `json:"groups,omitempty"`
	// Lint is what was found in the compiled kernels of the project; nil where none was looked at.
	Lint *Lint `json:"lint,omitempty"`
	// Regressions is set by a comparison with a baseline.
	Regressions int `json:"regressions,omitempty"`
	// Stopped says why a campaign that is not complete ended: fail-fast, time-limit, cancelled.
	Stopped string `json:"stopped,omitempty"`
}

// Lint counts what was found in compiled kernels.
type Lint struct {
	Kernels int `json:"kernels"` // that were looked at
	Errors  int `json:"errors"`  // violations that fail the run
	Notes   int `json:"notes"`   // violations that do not
	Unread  int `json:"unread"`  // kernels that could not be read or compiled
	// Report has the details, an inspect.Document without metrics; absent where a report leaves them out.
	Report json.RawMessage `json:"report,omitempty"`
}

// looked is how many kernels there were, looked at or not.
func (l *Lint) looked() int {
	if l == nil {
		return 0
	}
	return l.Kernels + l.Unread
}

// HealthCheck is a remark on the campaign itself: what was counted, why it matters, what to change.
type HealthCheck struct {
	Check   string `json:"check"` // stable name; [validation] silence = ["name"] silences it
	Op      string `json:"op,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// UndecidedShare is the share of undecided cases of an op above which a run is not green.
const UndecidedShare = 0.10

// Biases returns how many ops have errors with a common sign.
func (s *Summary) Biases() int {
	n := 0
	for i := range s.Ops {
		if len(s.Ops[i].Bias) > 0 {
			n++
		}
	}
	return n
}

// Vacuous returns how many cases are undecided because garbage would have passed them.
func (s *Summary) Vacuous() int {
	n := 0
	for i := range s.Ops {
		n += s.Ops[i].Vacuous
	}
	return n
}

// ExitCode is the exit code that the summary deserves: 1 if a case failed, the errors of an op have a common sign, a
// compiled kernel breaks its policy or a regression was found; else 3 if something asked for was not run or could not
// be read, nothing ran at all, or more than a tenth of an op's cases are undecided; else 0.
func (s *Summary) ExitCode() int {
	switch {
	case s.Failed > 0 || s.Regressions > 0 || s.Biases() > 0 || s.Lint != nil && s.Lint.Errors > 0:
		return 1
	case s.NotRun > 0 || s.Total < s.Planned || s.Total == 0 && s.Lint.looked() == 0:
		return 3
	case s.Lint != nil && s.Lint.Unread > 0:
		return 3
	}
	for _, op := range s.Ops {
		if float64(op.Undecided) > UndecidedShare*float64(op.Total) {
			return 3
		}
	}
	return 0
}

// Tally makes the counts of a summary from results given in any order.
type Tally struct {
	counts Counts
	ops    map[string]*opTally
}

type opTally struct {
	OpSummary
	dtypes map[string]bool
	leans  leans
}

// Add counts a result.
func (t *Tally) Add(r *Result) {
	t.counts.Add(r.Verdict)
	if t.ops == nil {
		t.ops = map[string]*opTally{}
	}
	op := t.ops[r.Op]
	if op == nil {
		op = &opTally{OpSummary: OpSummary{Op: r.Op}, dtypes: map[string]bool{}, leans: leans{}}
		t.ops[r.Op] = op
	}
	op.Counts.Add(r.Verdict)
	if r.Reason == Vacuous {
		op.Vacuous++
	}
	op.dtypes[r.DType] = true
	op.leans.add(r)
	if r.Candidate != "" {
		op.Candidate = r.Candidate
	}
	if r.Reference != "" {
		op.Reference = r.Reference
	}
	for i := range r.Outputs {
		op.MaxAbs = max(op.MaxAbs, r.Outputs[i].MaxAbs)
		op.MaxRatio = max(op.MaxRatio, r.Outputs[i].MaxRatio)
	}
}

// Counts returns the counts so far.
func (t *Tally) Counts() Counts { return t.counts }

// Ops returns the summaries by op, sorted by name.
func (t *Tally) Ops() []OpSummary {
	out := make([]OpSummary, 0, len(t.ops))
	for _, op := range t.ops {
		s := op.OpSummary
		for d := range op.dtypes {
			s.DTypes = append(s.DTypes, d)
		}
		sort.Strings(s.DTypes)
		s.Bias = op.leans.biases()
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Op < out[j].Op })
	return out
}
