package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/bench/detection/record"
)

// small makes a dataset of one base kernel k, its mutants and some records.
func small(t *testing.T, mutants []string, list ...record.Record) *dataset {
	t.Helper()
	var subjects []*subject
	for _, id := range mutants {
		subjects = append(subjects, &subject{id: id, kernel: "k", operator: "a", class: "mask"})
	}
	d, err := newDataset([]*subject{{id: "k", kernel: "k"}}, subjects, map[string]*record.File{"x": {Records: list}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCasesThatDidNotRun: they are no samples, no cases of a correct kernel, and a kernel that has some is listed.
func TestCasesThatDidNotRun(t *testing.T) {
	d := small(t, []string{"k.a.1", "k.a.2", "k.a.3"},
		record.Record{Run: record.Equivalence, ID: "k.a.1", Cases: 10, NotRun: 1},
		record.Record{Run: record.DeviceEquivalence, ID: "k.a.2", Cases: 10, NotRun: 2, Undecided: 2},
		record.Record{Run: record.DeviceEquivalence, ID: "k.a.3", Cases: 10, NotRun: 4, Undecided: 6},
		record.Record{Run: record.FalseAlarms, Setting: "mixed", ID: "k", Cases: 200, NotRun: 3},
		record.Record{Run: record.Baselines, Setting: "robust-kbench", ID: "k.a.1"},
		record.Record{Run: record.Baselines, Setting: "robust-kbench", ID: "k.a.2", Cases: 3, NotRun: 3},
	)
	if got := d.difference("k.a.1"); got != unended {
		t.Errorf("difference of a mutant that did not end = %d, want %d", got, unended)
	}
	if got := d.difference("k.a.2"); got != equivalent {
		t.Errorf("difference of one with samples that the base did not run = %d, want %d", got, equivalent)
	}
	if got := d.difference("k.a.3"); got != unsampled {
		t.Errorf("difference of one without a sample that was decided = %d, want %d", got, unsampled)
	}
	if got := d.samples(record.DeviceEquivalence, "k.a.2"); got != 6 {
		t.Errorf("samples = %d, want 6", got)
	}
	if _, cases := d.ourAlarms(); cases != (share{0, 197}) {
		t.Errorf("cases of correct kernels = %v, want {0 197}", cases)
	}
	if got := d.alarmed(); len(got) != 1 || got[0].id != "k" {
		t.Errorf("alarmed() = %v, want k", got)
	}
	for _, id := range []string{"k.a.1", "k.a.2"} {
		if o := d.judgeSetting(record.Baselines, "robust-kbench")(id); o != nil {
			t.Errorf("a harness without a case of %s has judged: %+v", id, o)
		}
	}
}

// TestSanitizedBase: what a tool says of the base kernel, too, is no fault of the mutant.
func TestSanitizedBase(t *testing.T) {
	d := small(t, []string{"k.a.1", "k.a.2"},
		record.Record{Run: record.Equivalence, ID: "k.a.1", Cases: 10}, record.Record{Run: record.Equivalence, ID: "k.a.2",
			Cases: 10},
		record.Record{Run: record.Sanitizer, Setting: "racecheck", ID: "k", Cases: 4, Failed: 1, First: 1},
		record.Record{Run: record.Sanitizer, Setting: "memcheck", ID: "k", Cases: 4},
		record.Record{Run: record.Sanitizer, Setting: "racecheck", ID: "k.a.1", Cases: 4, Failed: 1, First: 1},
		record.Record{Run: record.Sanitizer, Setting: "memcheck", ID: "k.a.2", Cases: 4, Failed: 1, First: 1})
	for id, want := range map[string]difference{"k.a.1": equivalent, "k.a.2": inMemory} {
		if got := d.difference(id); got != want {
			t.Errorf("difference(%s) = %d, want %d", id, got, want)
		}
	}
}

// TestLateAlarmCounts: a correct kernel fails by any case, a mutant has its budget.
func TestLateAlarmCounts(t *testing.T) {
	d := small(t, nil, record.Record{Run: record.FalseAlarms, Setting: "mixed", ID: "k", Cases: 200},
		record.Record{Run: record.Device, Setting: "mixed", ID: "k", Cases: 200, Failed: 1, First: 150, Reason: "mismatch"})
	if got := d.unlike(); len(got) != 1 {
		t.Errorf("unlike() = %v, want k", got)
	}
	if text := string(d.devicePage()); !strings.Contains(text, "fails at case 150: `mismatch`") {
		t.Errorf("the page does not name the case:\n%s", text)
	}
}

func TestOrderOfHarnesses(t *testing.T) {
	d := small(t, nil, record.Record{Run: record.Baselines, Setting: "new", ID: "k", Cases: 1},
		record.Record{Run: record.Baselines, Setting: "gpu-mode", ID: "k", Cases: 1},
		record.Record{Run: record.Baselines, Setting: "kernelbench", ID: "k", Cases: 1})
	if got, want := d.baselineSettings(), []string{"kernelbench", "gpu-mode", "new"}; !slices.Equal(got, want) {
		t.Errorf("baselineSettings() = %q, want %q", got, want)
	}
}

// TestPointsOfThePlot: what is gpuemu itself under another name has no second point.
func TestPointsOfThePlot(t *testing.T) {
	var list []record.Record
	for _, id := range []string{"k", "k.a.1"} {
		list = append(list, record.Record{Run: record.Strategies, Setting: "ours", ID: id, Cases: 1},
			record.Record{Run: record.Strategies, Setting: "regular", ID: id, Cases: 1},
			record.Record{Run: record.Regimes, Setting: "bound", ID: id, Cases: 1},
			record.Record{Run: record.Regimes, Setting: "fixed", ID: id, Cases: 1},
			record.Record{Run: record.Regimes, Setting: "fixed/normal", ID: id, Cases: 1})
	}
	list = append(list, record.Record{Run: record.Ours, Seed: "1", ID: "k.a.1", Cases: 1},
		record.Record{Run: record.FalseAlarms, Setting: "mixed", ID: "k", Cases: 1})
	said := texts(t, small(t, []string{"k.a.1"}, list...).recallPlot())
	for name, want := range map[string]bool{"gpuemu": true, "regular": true, "fixed": true, "ours": false, "bound": false,
		"fixed/normal": false} {
		if got := slices.Contains(said, name); got != want {
			t.Errorf("the plot names %q: %v, want %v", name, got, want)
		}
	}
}

// TestBlocks: what is written by hand stays, what the tool wrote before goes.
func TestBlocks(t *testing.T) {
	d := small(t, nil)
	page := "before\n" + blockStart + "stale\n" + blockEnd + "after\n"
	files, err := d.pages(func(string) (string, error) { return page, nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"README.md": "| **gpuemu**",
		"docs/evidence/README.md": "(detection-study.md)"} {
		got := string(files[name])
		if !strings.HasPrefix(got, "before\n"+blockStart) || !strings.HasSuffix(got, blockEnd+"after\n") ||
			strings.Contains(got, "stale") || !strings.Contains(got, want) {
			t.Errorf("%s is %q, want %q in it", name, got, want)
		}
	}
	page = "no block"
	want := "README.md has no lines"
	if _, err := d.pages(func(string) (string, error) { return page, nil }); err == nil || !strings.Contains(err.Error(),
		want) {
		t.Errorf("pages without their marks: %v, want %q", err, want)
	}
}

func TestReadDiscarded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mutants.json")
	text := `{"mutants": [], "stillborn": [{"id": "x", "reason": "y"}], "equal": ["z", "w"], "duplicates": []}`
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := readDiscarded(name)
	if err != nil || len(d.Stillborn) != 1 || len(d.Equal) != 2 || len(d.Duplicates) != 0 {
		t.Errorf("readDiscarded = %+v, %v, want 1 stillborn, 2 equal, no duplicates", d, err)
	}
}
