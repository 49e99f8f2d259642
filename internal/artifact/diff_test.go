package artifact

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// versus compares two records and returns what changed as one line each.
func versus(before, now Metrics, t Thresholds) (Change, []string) {
	c := Diff([]Metrics{before}, []Metrics{now}, t)[0]
	var lines []string
	for _, f := range c.Figures {
		if f.Delta != 0 {
			lines = append(lines, fmt.Sprintf("%s %d %d %+d %v", f.Name, f.Old, f.New, f.Delta, f.Regression))
		}
	}
	return c, lines
}

func TestDiffFigures(t *testing.T) {
	tenPercent := Thresholds{Relative: 0.1}
	for _, tt := range []struct {
		name   string
		before Metrics
		now    Metrics
		want   []string
		worse  bool
	}{
		{"equal", *exact(40, 0, 0, 0, 128), *exact(40, 0, 0, 0, 128), nil, false},
		{"within the threshold", *exact(40, 0, 0, 0, 1000), *exact(44, 0, 0, 0, 1100),
			[]string{"registers 40 44 +4 false", "shared_static 1000 1100 +100 false"}, false},
		{"beyond it", *exact(40, 0, 0, 0, 128), *exact(45, 0, 0, 0, 128), []string{"registers 40 45 +5 true"}, true},
		{"fewer", *exact(40, 8, 0, 0, 128), *exact(20, 0, 0, 0, 0),
			[]string{"registers 40 20 -20 false", "spill_stores 8 0 -8 false", "shared_static 128 0 -128 false"}, false},
		{"any spill more", *exact(40, 1000, 0, 0, 0), *exact(40, 1001, 0, 0, 0),
			[]string{"spill_stores 1000 1001 +1 true"}, true},
		{"from nothing", *exact(40, 0, 0, 0, 0), *exact(40, 0, 8, 8, 0),
			[]string{"stack 0 8 +8 true", "local 0 8 +8 true"}, true},
	} {
		c, got := versus(tt.before, tt.now, tenPercent)
		status := Changed
		if tt.want == nil {
			status = Same
		}
		if !slices.Equal(got, tt.want) || c.Regression != tt.worse || c.Status != status || len(c.Figures) != 6 {
			t.Errorf("%s: %q of %d, regression %v, %s; want %q of 6, %v, %s", tt.name, got, len(c.Figures), c.Regression,
				c.Status, tt.want, tt.worse, status)
		}
		if Regressed([]Change{{}, c}) != tt.worse {
			t.Errorf("%s: Regressed is %v", tt.name, !tt.worse)
		}
	}
}

// TestDiffLikeWithLike: an estimate is not compared with a fact, nor PTX with machine code.
func TestDiffLikeWithLike(t *testing.T) {
	before, now := record("k", "sm_90", PTX), *exact(90, 0, 0, 0, 0)
	before.Registers, before.PTXCode = figure(40, Estimated), &Code{Total: 100}
	now.SASSCode = &Code{Total: 1000}
	c, got := versus(before, now, Thresholds{})
	want := []string{"registers", "spill_stores", "spill_loads", "stack", "local", "shared_static", "ptx_instructions",
		"sass_instructions"}
	if got != nil || c.Regression || !slices.Equal(c.Unmatched, want) || c.CodeChanged != nil {
		t.Errorf("%q, unmatched %q, code changed %v; want nothing, %q, unknown", got, c.Unmatched, c.CodeChanged, want)
	}
	now = record("k", "sm_90", PTX)
	now.Registers, now.PTXCode = figure(50, Estimated), &Code{Total: 111}
	c, got = versus(before, now, Thresholds{Relative: 0.1})
	if lines := []string{"registers 40 50 +10 true", "ptx_instructions 100 111 +11 true"}; !slices.Equal(got, lines) ||
		!c.Regression {
		t.Errorf("%q, want %q", got, lines)
	}
}

func TestDiffKernels(t *testing.T) {
	list := func(names ...string) []Metrics {
		var records []Metrics
		for i := 0; i < len(names); i += 2 {
			records = append(records, record(names[i], names[i+1], PTX))
		}
		return records
	}
	for _, tt := range []struct {
		name        string
		before, now []Metrics
		want        []string
	}{
		{"none", nil, nil, nil},
		{"one of each", list("gone", "sm_80", "kept", "sm_80"), list("kept", "sm_80", "added", "sm_80"),
			[]string{"added sm_80 new", "gone sm_80 vanished", "kept sm_80 same"}},
		{"another architecture", list("k", "sm_80"), list("k", "sm_90"), []string{"k sm_90 same"}},
		{"one architecture more", list("k", "sm_80"), list("k", "sm_80", "k", "sm_90"),
			[]string{"k sm_80 same", "k sm_90 new"}},
		{"one less", list("k", "sm_80", "k", "sm_90"), list("k", "sm_90"), []string{"k sm_80 vanished", "k sm_90 same"}},
		{"all others", list("k", "sm_70", "k", "sm_75"), list("k", "sm_80", "k", "sm_90"),
			[]string{"k sm_70 vanished", "k sm_75 vanished", "k sm_80 new", "k sm_90 new"}},
	} {
		var got []string
		for _, c := range Diff(tt.before, tt.now, Thresholds{}) {
			got = append(got, fmt.Sprintf("%s %s %s", c.Kernel, c.Arch, c.Status))
			if c.Regression || (c.Baseline == nil) != (c.Status == New) || (c.Current == nil) != (c.Status == Vanished) {
				t.Errorf("%s: %+v", tt.name, c)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestDiffCode: equal counts do not hide another constant.
func TestDiffCode(t *testing.T) {
	before := record("k", "sm_90", PTX, Cubin)
	now := record("k", "sm_90", PTX, Cubin)
	before.Sources[0].Code, now.Sources[0].Code = "x", "x"
	c, _ := versus(before, now, Thresholds{})
	if c.CodeChanged == nil || *c.CodeChanged || c.Status != Same {
		t.Errorf("equal code: %+v", c)
	}
	now.Sources[0].Code = "y"
	c, _ = versus(before, now, Thresholds{})
	if c.CodeChanged == nil || !*c.CodeChanged || c.Status != Changed || c.Regression {
		t.Errorf("other code: %+v", c)
	}
}

// TestRecordSurvivesJSON: what a store keeps is compared and linted as what was read.
func TestRecordSurvivesJSON(t *testing.T) {
	m := *merged(t)
	var back Metrics
	if err := json.Unmarshal(must(json.Marshal(m)), &back); err != nil {
		t.Fatal(err)
	}
	check(t, "the record", back, m)
	p := Policy{Forbidden: patterns(t, "fma", "LDL"), MaxRegisters: limit(1)}
	check(t, "the violations", Lint(&back, p), Lint(&m, p))
	var policy Policy
	if err := json.Unmarshal(must(json.Marshal(p)), &policy); err != nil {
		t.Fatal(err)
	}
	check(t, "the violations by the policy", Lint(&m, policy), Lint(&m, p))
}
