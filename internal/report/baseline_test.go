package report

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

func compared(t *testing.T, base, now *Document, threshold float64) *Comparison {
	t.Helper()
	c, err := Compare(base, now.Source(), threshold)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cases != c.Common+c.Vanished {
		t.Errorf("%d cases of the baseline, %d common and %d vanished", c.Cases, c.Common, c.Vanished)
	}
	return c
}

func TestErrorGrew(t *testing.T) {
	for _, c := range []struct {
		name        string
		dtype       string
		before, now float64
		threshold   float64
		want        bool
	}{
		{"equal", "float32", 1e-5, 1e-5, 0, false},
		{"within the threshold", "float32", 1e-5, 1.09e-5, 0.1, false},
		{"at the threshold", "float32", 1, 1.5, 0.5, false},
		{"beyond the threshold", "float32", 1e-5, 1.11e-5, 0.1, true},
		{"better", "float32", 1e-5, 1e-6, 0.1, false},
		{"from 0, rounding only", "float32", 0, math.Ldexp(1, -24), 0.1, false},
		{"from 0, more than rounding", "float32", 0, math.Ldexp(1.01, -24), 0.1, true},
		{"float16, rounding only", "float16", 1e-5, 4e-4, 0.1, false},
		{"float16, more", "float16", 1e-5, 1e-3, 0.1, true},
		{"integers have no rounding", "int32", 0, 0.25, 0.1, true},
		{"unknown dtype", "float7", 0, 1e-30, 0.1, true},
		{"infinite", "float32", 1, math.Inf(1), 0.1, true},
	} {
		before, now := passing(0, "a", c.dtype, c.before), passing(0, "a", c.dtype, c.now)
		got := compared(t, documentOf(before), documentOf(now), c.threshold)
		if (got.Regressed == 1) != c.want {
			t.Errorf("%s: regressed %d, want %v", c.name, got.Regressed, c.want)
		}
	}
}

// Any error is infinitely many times an error of 0, so it is measured in units of the bound.
func TestErrorGrewFromZero(t *testing.T) {
	for _, c := range []struct {
		ratio, threshold float64
		message          string // "": no regression
	}{
		{0.05, 0.1, ""},
		{0.1, 0.1, ""},
		{0.11, 0.1, `largest absolute error of output "output" was 0, is 1e-05 (0.11 of its bound)`},
		{0.9, 1, ""},
		{math.Inf(1), 1, `largest absolute error of output "output" was 0, is 1e-05 (Inf of its bound)`},
		{math.MaxFloat64, 1, `largest absolute error of output "output" was 0, is 1e-05 (Inf of its bound)`},
	} {
		before, now := passing(0, "a", "float32", 0), passing(0, "a", "float32", 1e-5)
		now.Outputs[0].MaxRatio = c.ratio
		got := compared(t, documentOf(before), documentOf(now), c.threshold)
		message := ""
		if len(got.Regressions) > 0 {
			message = got.Regressions[0].Message
		}
		if message != c.message {
			t.Errorf("error/bound %g, threshold %g: %q, want %q", c.ratio, c.threshold, message, c.message)
		}
	}
}

func TestCompareVerdicts(t *testing.T) {
	kinds := []verdict.Verdict{verdict.Pass, verdict.Fail, verdict.Error, verdict.NotRun, verdict.Undecided}
	for _, then := range kinds {
		for _, now := range kinds {
			x, y := passing(0, "a", "float32", 0), passing(0, "a", "float32", 0)
			x.Verdict, y.Verdict = then, now
			c := compared(t, documentOf(x), documentOf(y), 0.1)
			judged := now == verdict.Pass || now.Failed()
			want := [4]bool{then == verdict.Pass && now.Failed(), then.Failed() && now == verdict.Pass,
				then.Failed() && now.Failed(), then == verdict.Pass && !judged}
			if got := [4]bool{c.Regressed == 1, c.Fixed == 1, c.StillFailing == 1, c.Lost == 1}; got != want {
				t.Errorf("%s then, %s now: regressed, fixed, still failing, lost = %v, want %v", then, now, got, want)
			}
			if c.Common != 1 || c.New != 0 {
				t.Errorf("%s then, %s now: %+v", then, now, c)
			}
		}
	}
}

// TestCompareMatchesNothingElse: an entry of another op, dtype, shape or seed is never used instead.
func TestCompareMatchesNothingElse(t *testing.T) {
	base := passing(0, "a", "float32", 1e-9)
	for name, change := range map[string]func(*verdict.Result){
		"op":    func(r *verdict.Result) { r.Op = "b" },
		"dtype": func(r *verdict.Result) { r.DType = "float16" },
		"shape": func(r *verdict.Result) { r.Case = caseText("a", "float32", 17, 1000) },
		"seed":  func(r *verdict.Result) { r.Case = caseText("a", "float32", 16, 1001) },
	} {
		now := passing(0, "a", "float32", 1)
		change(&now)
		s := documentOf(now).Source()
		c := compared(t, documentOf(base), documentOf(now), 0.1)
		if c.Common != 0 || c.Regressed != 0 || c.New != 1 || c.Vanished != 1 {
			t.Errorf("another %s: %+v", name, c)
		}
		if s.Baseline = c; s.ExitCode() != 3 {
			t.Errorf("another %s: exit code %d, want 3", name, s.ExitCode())
		}
	}
}

func TestCompareVanished(t *testing.T) {
	base := documentOf(passing(0, "a", "float32", 0), passing(1, "b", "float32", 0), passing(2, "k", "", 0),
		passing(3, "a", "float16", 0))
	c := compared(t, base, documentOf(passing(0, "a", "float32", 0)), 0.1)
	if !reflect.DeepEqual(c.VanishedOps, []string{"b", "k"}) || c.Vanished != 3 || len(c.VanishedCases) != 3 {
		t.Errorf("vanished ops %q, %d cases %v", c.VanishedOps, c.Vanished, c.VanishedCases)
	}
}

// TestCompareTakesTheNewest: a baseline made from several runs has cases twice.
func TestCompareTakesTheNewest(t *testing.T) {
	older, newer := passing(0, "a", "float32", 1e-3), passing(0, "a", "float32", 1e-5)
	newer.Time = older.Time.Add(1)
	now := documentOf(passing(0, "a", "float32", 1e-4))
	for _, base := range []*Document{documentOf(older, newer), documentOf(newer, older)} {
		if c := compared(t, base, now, 0.1); c.Regressed != 1 || c.Cases != 1 {
			t.Errorf("%+v", c)
		}
	}
}

// TestCompareLooksAtEachOutput: a large error of one output does not hide that another one grew.
func TestCompareLooksAtEachOutput(t *testing.T) {
	two := func(first, second float64) verdict.Result {
		r := passing(0, "a", "float32", first)
		o := r.Outputs[0]
		o.Name, o.MaxAbs = "second", second
		r.Outputs = append(r.Outputs, o)
		return r
	}
	c := compared(t, documentOf(two(1, 1e-5)), documentOf(two(1, 1e-3)), 0.1)
	if c.Regressed != 1 || c.Regressions[0].Output != "second" {
		t.Errorf("%+v", c)
	}
}

func TestCompareListsAreLimited(t *testing.T) {
	var base, now []verdict.Result
	for i := range MaxListed + 50 {
		base, now = append(base, passing(i, "a", "float32", 0)), append(now, wrong(i, "a", "float32", ""))
	}
	d := documentOf(now...)
	d.Baseline = compared(t, documentOf(base...), d, 0.1)
	if d.Baseline.Regressed != MaxListed+50 || len(d.Baseline.Regressions) != MaxListed {
		t.Errorf("%d regressions, %d listed", d.Baseline.Regressed, len(d.Baseline.Regressions))
	}
	if fault := junitFault(written(t, JUnit, d.Source())); fault != "" {
		t.Error(fault)
	}
}

func TestCompareRefusesThresholds(t *testing.T) {
	d := documentOf(passing(0, "a", "float32", 0))
	for _, threshold := range []float64{-0.1, math.NaN(), math.Inf(1)} {
		if c, err := Compare(d, d.Source(), threshold); c != nil || diag.CodeOf(err) != BadThreshold {
			t.Errorf("Compare with threshold %v = %v, %v", threshold, c, err)
		}
	}
}

// TestCompareWithItself: no report regresses against itself.
func TestCompareWithItself(t *testing.T) {
	d := everything("")
	c := compared(t, d, d, 0)
	if c.Regressed != 0 || c.New != 0 || c.Vanished != 0 || c.Lost != 0 || c.Fixed != 0 || c.Common != len(d.Results) {
		t.Errorf("%+v", c)
	}
}

// TestCompareCountsCasesOnce: a run made of several campaigns has cases twice.
func TestCompareCountsCasesOnce(t *testing.T) {
	base := documentOf(passing(0, "a", "float32", 0), passing(1, "a", "float32", 0))
	c := compared(t, base, documentOf(passing(0, "a", "float32", 0), passing(0, "a", "float32", 0)), 0.1)
	if c.Common != 1 || c.Vanished != 1 {
		t.Errorf("%+v", c)
	}
}

// A growth between the two thresholds is a note, and nothing else.
func TestGrowthIsNoted(t *testing.T) {
	for _, c := range []struct {
		now              float64
		warn             float64
		grown, regressed int
	}{
		{1.04e-5, 0.05, 0, 0}, {1.07e-5, 0.05, 1, 0}, {1.2e-5, 0.05, 0, 1}, {1.07e-5, 0, 0, 0}, {1.2e-5, 0.5, 0, 1},
	} {
		base, now := documentOf(passing(0, "a", "float32", 1e-5)), documentOf(passing(0, "a", "float32", c.now))
		got, err := CompareWithin(base, now.Source(), Thresholds{Regression: 0.1, Warn: c.warn})
		if err != nil || got.Grown != c.grown || len(got.Growths) != c.grown || got.Regressed != c.regressed {
			t.Errorf("%g with %g: %+v, %v", c.now, c.warn, got, err)
			continue
		}
		noted := slices.ContainsFunc(got.lines(false), func(line string) bool {
			return strings.HasPrefix(line, "note: ") && strings.Contains(line, "(1.07 times), above 5 %")
		})
		if noted != (c.grown > 0) {
			t.Errorf("%g with %g: %q", c.now, c.warn, got.lines(false))
		}
	}
	d := documentOf(passing(0, "a", "float32", 0))
	if _, err := CompareWithin(d, d.Source(), Thresholds{Warn: -1}); diag.CodeOf(err) != BadThreshold {
		t.Errorf("a negative threshold: %v", err)
	}
}
