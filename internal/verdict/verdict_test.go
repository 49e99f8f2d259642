package verdict

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

func TestVerdictNamesRoundTrip(t *testing.T) {
	for _, v := range All() {
		got, err := Parse(v.String())
		if err != nil || got != v {
			t.Errorf("Parse(%q) = %v, %v, want %v", v.String(), got, err, v)
		}
	}
	if _, err := Parse("passed"); err == nil {
		t.Error(`Parse("passed") succeeded, want an error`)
	}
}

func TestSeedIsAStringInJSON(t *testing.T) {
	const big = 1<<63 + 12345 // not representable as a double
	b, err := json.Marshal(Seed(big))
	if err != nil || string(b) != `"9223372036854788153"` {
		t.Fatalf("Marshal = %s, %v", b, err)
	}
	for _, text := range []string{`"9223372036854788153"`, `9223372036854788153`} {
		var s Seed
		if err := json.Unmarshal([]byte(text), &s); err != nil || s != big {
			t.Errorf("Unmarshal(%s) = %d, %v, want %d", text, s, err, uint64(big))
		}
	}
	for _, text := range []string{`"-1"`, `1.5`, `1e3`, `"x"`, `""`, `"18446744073709551616"`} {
		var s Seed
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("Unmarshal(%s) = %d, want an error", text, s)
		}
	}
}

func TestExitCode(t *testing.T) {
	op := func(total, undecided int) []OpSummary {
		return []OpSummary{{Op: "softmax", Counts: Counts{Total: total, Undecided: undecided}}}
	}
	green := Counts{Total: 1, Passed: 1}
	for _, c := range []struct {
		name string
		s    Summary
		want int
	}{
		{"all passed", Summary{Planned: 3, Counts: Counts{Total: 3, Passed: 3}}, 0},
		{"one failed", Summary{Planned: 3, Counts: Counts{Total: 3, Passed: 2, Failed: 1}}, 1},
		{"failed beats not run", Summary{Planned: 3, Counts: Counts{Total: 3, NotRun: 2, Failed: 1}}, 1},
		{"regression", Summary{Planned: 3, Counts: Counts{Total: 3, Passed: 3}, Regressions: 1}, 1},
		{"one not run", Summary{Planned: 3, Counts: Counts{Total: 3, Passed: 2, NotRun: 1}}, 3},
		{"nothing ran", Summary{}, 3},
		{"not all ran", Summary{Planned: 4, Counts: Counts{Total: 3, Passed: 3}}, 3},
		{"a kernel breaks a rule", Summary{Planned: 1, Counts: green, Lint: &Lint{Kernels: 1, Errors: 1}}, 1},
		{"rule beats unfinished", Summary{Planned: 2, Counts: green, Lint: &Lint{Kernels: 1, Errors: 1}}, 1},
		{"notes of kernels", Summary{Planned: 1, Counts: green, Lint: &Lint{Kernels: 1, Notes: 2}}, 0},
		{"a kernel is unread", Summary{Planned: 1, Counts: green, Lint: &Lint{Unread: 1}}, 3},
		{"kernels alone", Summary{Lint: &Lint{Kernels: 1}}, 0},
		{"no kernel at all", Summary{Lint: &Lint{}}, 3},
		{"kernels, and not all ran", Summary{Planned: 1, Lint: &Lint{Kernels: 1}}, 3},
		{"a tenth undecided", Summary{Planned: 10, Counts: Counts{Total: 10, Passed: 9, Undecided: 1}, Ops: op(10, 1)}, 0},
		{"more undecided", Summary{Planned: 10, Counts: Counts{Total: 10, Passed: 8, Undecided: 2}, Ops: op(10, 2)}, 3},
	} {
		if got := c.s.ExitCode(); got != c.want {
			t.Errorf("%s: ExitCode() = %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTallyAddsUp(t *testing.T) {
	var tally Tally
	for i, v := range []Verdict{Pass, Fail, Error, NotRun, Undecided, Pass} {
		tally.Add(&Result{Index: i, Op: "b", DType: "float32", Verdict: v})
	}
	tally.Add(&Result{Op: "a", DType: "float16", Verdict: Pass, Outputs: []Output{{MaxAbs: 2}, {MaxAbs: 1}}})
	c := tally.Counts()
	if want := (Counts{Total: 7, Passed: 3, Failed: 2, Errors: 1, NotRun: 1, Undecided: 1}); c != want {
		t.Errorf("Counts() = %+v, want %+v", c, want)
	}
	if c.Passed+c.Failed+c.NotRun+c.Undecided != c.Total {
		t.Error("counts do not add up")
	}
	ops := tally.Ops()
	if len(ops) != 2 || ops[0].Op != "a" || ops[0].MaxAbs != 2 || ops[1].Total != 6 {
		t.Errorf("Ops() = %+v", ops)
	}
}

// TestSaturated goes through all numbers of an output by reflection, so that a new one is not forgotten.
func TestSaturated(t *testing.T) {
	for _, odd := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		r := &Result{Op: "softmax", Outputs: []Output{{Worst: []Element{{}}}}}
		fill := func(v reflect.Value) {
			for i := range v.NumField() {
				if f := v.Field(i); f.Kind() == reflect.Float64 {
					f.SetFloat(odd)
				}
			}
		}
		fill(reflect.ValueOf(&r.Outputs[0]).Elem())
		fill(reflect.ValueOf(&r.Outputs[0].Worst[0]).Elem())
		if _, err := json.Marshal(r); err == nil {
			t.Fatalf("Marshal with %v succeeded: the test is empty", odd)
		}
		if _, err := json.Marshal(r.Saturated()); err != nil {
			t.Errorf("Marshal of Saturated with %v: %v", odd, err)
		}
		if got := r.Outputs[0].MaxAbs; got == got && !math.IsInf(got, 0) {
			t.Errorf("Saturated changed its receiver: %v", got)
		}
	}
}
