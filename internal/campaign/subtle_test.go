package campaign

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/subtle"
	"gpuemu/internal/verdict"
)

// This file runs the faults of testkit/subtle as a campaign runs a candidate: cases of the default strategy, expected
// values of the catalogue, the judgement of judge.go.

// subtleCases is how many cases a fault must be found in: the default of gpuemu fuzz.
const subtleCases = DefaultIterations

// twinElems is the size of the cases that twins see in an ordinary test run; with the record they see all. Shorter
// cases are most of the cases, and the large ones cost most of the time.
const twinElems = 1 << 14

// hunt is one fault under one master seed.
type hunt struct {
	fault  *subtle.Fault
	found  int     // the case that fails; -1: none
	ratio  float64 // the largest error/bound of the cases that pass
	twin   float64 // the same of the twin
	alarms []string
}

// field is what the cases of a hunt are drawn from.
type field struct {
	setting opspec.Attrs
	values  string // "": mixed
	seed    uint64
	full    bool // twins see all cases
}

// run runs faults that see the same cases, and their twins, over the cases of one master seed. A fault that was found
// is not run again.
func (f field) run(t *testing.T, faults []*subtle.Fault) []*hunt {
	t.Helper()
	var hunts []*hunt
	for _, fault := range faults {
		hunts = append(hunts, &hunt{fault: fault, found: -1})
	}
	s, ok := catalogueSubject(nil, faults[0].Op)
	if !ok {
		t.Fatalf("no op %q", faults[0].Op)
	}
	s.workers = 1
	stream, err := gen.Cases(s.schema, gen.Strategy{DTypes: faults[0].DTypes, Attrs: f.setting, Values: f.values}, f.seed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range subtleCases {
		c, err := stream.Case(i)
		if err != nil {
			t.Fatal(err)
		}
		twins := f.full || largestInput(c) <= twinElems
		if !twins && !slices.ContainsFunc(hunts, func(h *hunt) bool { return h.found < 0 }) {
			continue
		}
		inputs, err := stream.Inputs(c)
		if err != nil {
			t.Fatal(err)
		}
		wants, err := s.evaluate(c, inputs)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		trial := &subtleTrial{t, s, c, inputs, wants}
		for _, h := range hunts {
			h.step(trial, i, twins)
		}
		for _, w := range wants {
			oracle.Release(w.want)
		}
	}
	return hunts
}

// largestInput is the size of the largest input of a case.
func largestInput(c opspec.Case) int {
	most := 0
	for _, in := range c.Inputs {
		most = max(most, in.Shape.Elems())
	}
	return most
}

// step runs the kernels of a hunt on one case.
func (h *hunt) step(trial *subtleTrial, i int, twin bool) {
	if h.found < 0 {
		res := trial.judge(h.fault.Faulty)
		switch res.Verdict {
		case verdict.Fail:
			h.found = i
		case verdict.Error:
			trial.t.Fatalf("%s: %s: %s", h.fault.Name, trial.c, res.Message)
		default:
			h.ratio = max(h.ratio, worstRatio(res))
		}
	}
	if !twin {
		return
	}
	res := trial.judge(h.fault.Twin)
	h.twin = max(h.twin, worstRatio(res))
	if res.Verdict != verdict.Pass && res.Verdict != verdict.Undecided {
		h.alarms = append(h.alarms, fmt.Sprintf("%s\n%s", res.Message, trial.c))
	}
}

func worstRatio(res *verdict.Result) float64 {
	most := 0.0
	for _, out := range res.Outputs {
		most = max(most, out.MaxRatio)
	}
	return most
}

// subtleTrial is one case with its expected values.
type subtleTrial struct {
	t      *testing.T
	s      *subject
	c      opspec.Case
	inputs map[string]*tensor.Tensor
	wants  []expected
}

// judge runs a kernel and judges it.
func (r *subtleTrial) judge(k subtle.Kernel) *verdict.Result {
	r.t.Helper()
	specs := map[string]subtle.OutSpec{}
	for _, w := range r.wants {
		specs[w.name] = subtle.OutSpec{Shape: w.want.Shape, DType: w.want.DType}
	}
	got, err := subtle.Run(k, r.c.DType, r.c.AttrMap(), r.inputs, specs)
	if err != nil {
		r.t.Fatalf("%s: %v", r.c, err)
	}
	res := &verdict.Result{}
	if err := r.s.judge(res, r.c, got, r.wants, observed{}); err != nil {
		r.t.Fatalf("%s: %v", r.c, err)
	}
	return res
}

// subtleGroups returns the faults that see the same cases together.
func subtleGroups(faults []subtle.Fault) [][]*subtle.Fault {
	var keys []string
	groups := map[string][]*subtle.Fault{}
	for i := range faults {
		f := &faults[i]
		key := fmt.Sprint(f.Op, f.DTypes)
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], f)
	}
	var out [][]*subtle.Fault
	for _, key := range keys {
		out = append(out, groups[key])
	}
	return out
}

// subtleRow is a line of the record.
type subtleRow struct {
	fault    *subtle.Fault
	found    []int // by seed, under the setting where there is one
	byChance bool  // found without the setting
	normal   int   // found with normal values, only in the record; -1: not
	ratio    float64
	twin     float64
}

// missed reports whether some seed does not find the fault.
func (r *subtleRow) missed() bool { return slices.Contains(r.found, -1) }

// TestSubtleFaults: every fault is found within 100 default cases under each of three master seeds, or, where the
// contract allows it, with the setting that forbids it; no twin ever fails. GPUEMU_SUBTLE_RECORD names the file of the
// record.
func TestSubtleFaults(t *testing.T) {
	testkit.ValuesOnly(t)
	record := os.Getenv("GPUEMU_SUBTLE_RECORD")
	seeds := []uint64{1, 2, 3}
	if testing.Short() {
		seeds = seeds[:1]
	}
	faults := subtle.Faults()
	rows := make([]*subtleRow, len(faults))
	var mu sync.Mutex
	t.Run("ops", func(t *testing.T) {
		for _, group := range subtleGroups(faults) {
			t.Run(group[0].Op, func(t *testing.T) {
				t.Parallel()
				for _, row := range huntGroup(t, group, seeds, record != "") {
					mu.Lock()
					for i := range faults {
						if row.fault == &faults[i] {
							rows[i] = row
						}
					}
					mu.Unlock()
				}
			})
		}
	})
	if t.Failed() || record == "" {
		return
	}
	if slices.Contains(rows, nil) {
		t.Fatal("some ops were not run: the record needs them all")
	}
	if err := os.WriteFile(record, []byte(subtleTable(rows, seeds)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// huntGroup hunts the faults of one group with all seeds and checks what came out.
func huntGroup(t *testing.T, group []*subtle.Fault, seeds []uint64, full bool) []*subtleRow {
	t.Helper()
	rows := map[*subtle.Fault]*subtleRow{}
	var out []*subtleRow
	var plain []*subtle.Fault
	for _, f := range group {
		rows[f] = &subtleRow{fault: f, normal: -1}
		out = append(out, rows[f])
		if f.Setting == nil {
			plain = append(plain, f)
		}
	}
	for _, seed := range seeds {
		if len(plain) > 0 {
			for _, h := range (field{seed: seed, full: full}).run(t, plain) {
				rows[h.fault].take(t, h, seed)
			}
		}
		for _, f := range group {
			if f.Setting == nil {
				continue
			}
			rows[f].take(t, field{setting: f.Setting, seed: seed, full: full}.run(t, []*subtle.Fault{f})[0], seed)
			if full {
				h := field{seed: seed, full: full}.run(t, []*subtle.Fault{f})[0]
				rows[f].byChance = rows[f].byChance || h.found >= 0
			}
		}
	}
	for _, row := range out {
		row.check(t)
	}
	if full {
		for _, h := range (field{seed: 1, values: "normal"}).run(t, group) {
			rows[h.fault].normal = h.found
		}
	}
	return out
}

// take adds what one seed gave.
func (r *subtleRow) take(t *testing.T, h *hunt, seed uint64) {
	t.Helper()
	r.found = append(r.found, h.found)
	r.ratio, r.twin = max(r.ratio, h.ratio), max(r.twin, h.twin)
	for _, alarm := range h.alarms[:min(3, len(h.alarms))] {
		t.Errorf("%s, seed %d: the conforming twin fails: %s", h.fault.Name, seed, alarm)
	}
}

// check compares with what the table of faults says.
func (r *subtleRow) check(t *testing.T) {
	t.Helper()
	f := r.fault
	switch {
	case r.missed():
		t.Errorf("%s: found at case %v, want a case within %d for each seed; largest error/bound %.3g",
			f.Name, r.found, subtleCases, r.ratio)
	case r.byChance:
		t.Errorf("%s: found with default attributes, so the contract does not allow it: %s", f.Name, f.Inside)
	}
}

// subtleTable is the record.
func subtleTable(rows []*subtleRow, seeds []uint64) string {
	var found, inside, ops int
	seen := map[string]bool{}
	var b strings.Builder
	for _, r := range rows {
		state := "found"
		switch {
		case r.fault.Setting != nil:
			state = "inside the contract: " + r.fault.Inside + "; found with " + settingText(r.fault.Setting)
			inside++
		default:
			found++
		}
		if !seen[r.fault.Op] {
			seen[r.fault.Op] = true
			ops++
		}
		fmt.Fprintf(&b, "| %s | %s |", r.fault.Op, r.fault.Name)
		for _, n := range r.found {
			fmt.Fprintf(&b, " %s |", caseText(n))
		}
		fmt.Fprintf(&b, " %s | %.2g / %.2g | %s |\n", caseText(r.normal), r.ratio, r.twin, state)
	}
	head := fmt.Sprintf("# Subtle faults\n\nMade by `make evidence-faults`: %d faults in %d ops, %d found within %d "+
		"default cases (mixed values, float32 and float16, with bfloat16 where the fault is one of it) under each of the "+
		"master seeds %v, %d inside the contract and found with the setting named. The conforming twin of each, the "+
		"same kernel without the fault, passes every case.\n\n", len(rows), ops, found, subtleCases, seeds,
		inside)
	head += "Cells: the first case, counted from 0, that fails. Normal: with `--values normal`, seed 1. Error/bound: " +
		"the largest of the faulty kernel in cases that pass / of its twin. Kernels and faults: " +
		"internal/testkit/subtle.\n\n| op | fault |"
	line := "|---|---|"
	for _, seed := range seeds {
		head += fmt.Sprintf(" seed %d |", seed)
		line += "---:|"
	}
	return head + " normal | error/bound | |\n" + line + "---:|---:|---|\n" + b.String()
}

func caseText(n int) string {
	if n < 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

func settingText(a opspec.Attrs) string {
	var out []string
	for name, v := range a {
		out = append(out, fmt.Sprintf("`%s = %q`", name, fmt.Sprint(v)))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
