package main

import (
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
	d := small(t, []string{"k.a.1", "k.a.2"},
		record.Record{Run: record.Equivalence, ID: "k.a.1", Cases: 10, NotRun: 1},
		record.Record{Run: record.DeviceEquivalence, ID: "k.a.2", Cases: 10, NotRun: 4},
		record.Record{Run: record.FalseAlarms, Setting: "mixed", ID: "k", Cases: 200, NotRun: 3},
		record.Record{Run: record.Baselines, Setting: "robust-kbench", ID: "k.a.1"},
	)
	if got := d.difference("k.a.1"); got != unended {
		t.Errorf("difference of a mutant that did not end = %d, want %d", got, unended)
	}
	if got := d.difference("k.a.2"); got != equivalent {
		t.Errorf("difference of one with samples that the base did not run = %d, want %d", got, equivalent)
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
	if o := d.judgeSetting(record.Baselines, "robust-kbench")("k.a.1"); o != nil {
		t.Errorf("a harness without a case has judged: %+v", o)
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

func TestReadmeTable(t *testing.T) {
	d := small(t, nil)
	files, err := d.pages("before\n" + tableStart + "old\n" + tableEnd + "after\n")
	if err != nil {
		t.Fatal(err)
	}
	got := string(files["README.md"])
	if !strings.HasPrefix(got, "before\n"+tableStart) || !strings.HasSuffix(got, tableEnd+"after\n") ||
		strings.Contains(got, "old") || !strings.Contains(got, "| **gpuemu**") {
		t.Errorf("README is %q", got)
	}
	if _, err := d.pages("no table"); err == nil || !strings.Contains(err.Error(), "README.md has no lines") {
		t.Errorf("pages of a README without its marks: %v", err)
	}
}
