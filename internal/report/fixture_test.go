// This file implements the results that the tests of this package report.

package report

import (
	"fmt"
	"time"

	"gpuemu/internal/verdict"
)

var started = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func caseText(op, dt string, n int, seed uint64) string {
	return fmt.Sprintf("%s dtype=%s dims=N:%d in=input:%s[2,%d]:strided:uniform seed=%d gen=1", op, dt, n, dt, n, seed)
}

func passing(index int, op, dt string, maxAbs float64) verdict.Result {
	seed := uint64(1000 + index)
	return verdict.Result{Index: index, Op: op, DType: dt, Case: caseText(op, dt, 16+index, seed),
		Seed: verdict.Seed(seed), Verdict: verdict.Pass, Candidate: "kernels/" + op + ".py:run", Reference: "builtin:" + op,
		Outputs: []verdict.Output{{Name: "output", DType: dt, Shape: []int{2, 16 + index}, Regime: "bound",
			Elements: 2 * (16 + index), MaxAbs: maxAbs, MaxRatio: 0.25, MaxWant: 1}},
		Time: started.Add(time.Duration(index) * time.Second), Duration: 1500 * time.Microsecond}
}

// wrong is a failed comparison with everything a failure can have; evil is put into all texts that come from outside.
func wrong(index int, op, dt, evil string) verdict.Result {
	r := passing(index, op, dt, 0.5)
	r.Verdict, r.Reason = verdict.Fail, verdict.Mismatch
	r.Message = `output "output": 3 of 1024 elements are wrong; worst at [1,2]: got 1.5, want 1 within 1e-07` + evil
	r.Hint = "look at the last tile" + evil
	r.Stderr = "warning: <slow> & \"odd\"\r\nlast line" + evil + "\n"
	r.Outputs[0] = verdict.Output{Name: "output", DType: dt, Shape: []int{4, 256}, Regime: "bound",
		Elements: 1024, Mismatched: 3,
		Kinds:  map[string]int{"unexpected NaN": 1, "beyond bound": 2},
		MaxAbs: 0.5, MeanAbs: 0.001, P99Abs: 0.25, MaxRel: 0.75, MaxULP: 4194304, MaxRatio: 5e6, MaxWant: 3,
		Worst: []verdict.Element{
			{Index: []int{0, 255}, Kind: "unexpected NaN", Got: "NaN", Want: "0.25", Bound: 1e-7},
			{Index: []int{1, 2}, Kind: "beyond bound", Got: "1.5", Want: "1", Bound: 1e-7, Abs: 0.5, Rel: 0.5, ULP: 4194304},
			{Index: []int{3, 9}, Kind: "beyond bound", Got: "0.35", Want: "0.2", Bound: 2e-8, Abs: 0.15, Rel: 0.75, ULP: 1},
		},
		Map:       "wrong elements over the last two dimensions [4,256] (. none, 1-9 tenths, @ all)\n....\n..@@\n",
		Diagnosis: []verdict.Finding{{Kind: "tile", Sentence: "all errors lie in the last partial tile" + evil}},
	}
	r.Invariants = []verdict.Invariance{
		{Output: "output", Name: "no_nan", Outcome: "violated", Sentence: "1 element is NaN"},
		{Output: "output", Name: "finite", Outcome: "holds"},
	}
	return r
}

func raised(index int, op, dt, evil string) verdict.Result {
	r := passing(index, op, dt, 0)
	r.Verdict, r.Reason, r.Outputs = verdict.Error, verdict.Raised, nil
	r.Message = "the candidate raised ValueError: bad shape" + evil
	for i := range 25 {
		r.Stderr += fmt.Sprintf("frame %d%s\n", i, evil)
	}
	return r
}

func notRun(index int, op, dt string) verdict.Result {
	r := passing(index, op, dt, 0)
	r.Verdict, r.Reason, r.Outputs = verdict.NotRun, verdict.MissingPackage, nil
	r.Message, r.Hint = "ml_dtypes is not installed", "pip install ml_dtypes"
	return r
}

func undecided(index int, op, dt string) verdict.Result {
	r := passing(index, op, dt, 0)
	r.Verdict, r.Reason = verdict.Undecided, verdict.AllUndetermined
	r.Message = "the contract of the operator decides on none of the elements"
	return r
}

// documentOf puts results together with their summary.
func documentOf(results ...verdict.Result) *Document {
	var tally verdict.Tally
	for i := range results {
		tally.Add(&results[i])
	}
	if results == nil {
		results = []verdict.Result{}
	}
	d := &Document{Format: Format, Version: "1.2.3", Results: results, Name: "results.json"}
	d.Summary = verdict.Summary{Campaign: "c-1", Kind: "ci", Project: "demo", Seed: 18446744073709551615,
		Planned: len(results), PlannedTotal: len(results), Complete: true, Started: started,
		Duration: 12345 * time.Millisecond,
		Counts:   tally.Counts(), Ops: tally.Ops()}
	return d
}

// everything is a report with one of each.
func everything(evil string) *Document {
	d := documentOf(
		passing(0, "softmax", "float32", 1e-8), wrong(1, "softmax", "float32", evil), raised(2, "softmax", "float16", evil),
		passing(3, "matmul"+evil, "float32", 1e-7), notRun(4, "matmul"+evil, "bfloat16"),
		notRun(5, "matmul"+evil, "bfloat16"), undecided(6, "matmul"+evil, "float16"))
	d.Summary.Project += evil
	d.Summary.Health = []verdict.HealthCheck{{Check: "constant_outputs", Op: "softmax",
		Message: "the output is one constant in 5 of 7 cases, which tests little" + evil, Hint: "choose other --values"}}
	base := documentOf(passing(0, "softmax", "float32", 1e-9), passing(1, "softmax", "float32", 1e-8),
		passing(3, "matmul"+evil, "float32", 1e-8), passing(4, "matmul"+evil, "bfloat16", 0),
		passing(7, "relu"+evil, "float32", 0))
	base.Name = "main" + evil
	c, err := Compare(base, d.Source(), 0.1)
	if err != nil {
		panic(err)
	}
	d.Baseline, d.Summary.Regressions = c, c.Regressed
	d.Notes = []string{"the clock of this machine went back" + evil}
	return d
}
