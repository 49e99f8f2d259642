package main

import (
	"fmt"
	"strings"
	"testing"

	"gpuemu/bench/detection/record"
)

// synthetic is a small study whose figures can be counted by hand: two kernels and eight mutants.
//
//	k1.a.1 k1.a.2 k1.b.1 k2.a.1     known operators: cases 1, 3, 101 (too late), missed
//	k2.h.1                          held out: case 2
//	real.x                          a real bug: case 1, by a check; its values say so at case 7
//	k2.a.2 k1.e.1                   no bit differs; the first is wrong in memory, the second equivalent
func synthetic(t *testing.T) *dataset {
	t.Helper()
	formats := []string{"float32", "float16"}
	bases := []*subject{{id: "k1", kernel: "k1", language: "triton", dtypes: formats},
		{id: "k2", kernel: "k2", language: "cuda", dtypes: formats}}
	m := func(id, kernel, operator, class string, held bool) *subject {
		return &subject{id: id, kernel: kernel, operator: operator, class: class, heldOut: held, language: "triton",
			what: "what of " + id, before: "a < b", after: "a <= b", line: 3}
	}
	mutants := []*subject{m("k1.a.1", "k1", "a", "mask", false), m("k1.a.2", "k1", "a", "mask", false),
		m("k1.b.1", "k1", "b", "index", false), m("k2.a.1", "k2", "a", "mask", false), m("k2.h.1", "k2", "h", "index", true),
		m("real.x", "k1", "real", "mask", false), m("k2.a.2", "k2", "a", "mask", false), m("k1.e.1", "k1", "e", "index",
			false)}
	ours := func(id string, cases, first int, reason string) record.Record {
		failed := 0
		if first > 0 {
			failed = 1
		}
		return record.Record{Run: record.Ours, Seed: "1", ID: id, Cases: cases, First: first, Failed: failed, Reason: reason,
			Seconds: 0.5 * float64(first)}
	}
	first := &record.File{Header: record.Header{Command: "detection ours", Commit: "abc"}, Records: []record.Record{
		ours("k1.a.1", 1, 1, "value"), ours("k1.a.2", 3, 3, "value"), ours("k1.b.1", 101, 101, "value"),
		ours("k2.a.1", 100, 0, ""), ours("k2.h.1", 2, 2, "value"), ours("real.x", 1, 1, "oob_read"),
		ours("k2.a.2", 4, 4, "oob_read"), ours("k1.e.1", 100, 0, ""),
	}}
	for _, seed := range []string{"10", "2"} {
		first.Records = append(first.Records, record.Record{Run: record.Ours, Seed: seed, ID: "k1.a.1", Cases: 100})
	}
	rest := &record.File{Header: record.Header{Command: "detection all"}}
	add := func(r record.Record) { rest.Records = append(rest.Records, r) }
	for _, b := range bases {
		for _, values := range []string{"mixed", "adversarial"} {
			for _, dt := range []string{"float32", "float16"} {
				add(record.Record{Run: record.FalseAlarms, ID: b.id, Setting: values, DType: dt, Cases: 200,
					Elements: 1000, Undetermined: 25})
			}
		}
		add(record.Record{Run: record.Baselines, Setting: "simple", ID: b.id, Cases: 1})
		add(record.Record{Run: record.Regimes, Setting: "bound", ID: b.id, Cases: 100})
		add(record.Record{Run: record.Strategies, Setting: "adversarial", ID: b.id, Cases: 100})
		add(record.Record{Run: record.Device, Setting: "mixed", ID: b.id, Cases: 200})
	}
	add(record.Record{Run: record.Baselines, Setting: "strict", ID: "k1", Cases: 5, Failed: 2, First: 1,
		Reason: "mismatch", Case: "sum B=1"})
	add(record.Record{Run: record.Baselines, Setting: "strict", ID: "k2", Cases: 5})
	for i, m := range mutants {
		e := record.Record{Run: record.Equivalence, ID: m.id, Cases: 1, First: 1, Failed: 1, Case: "B=3"}
		if m.id == "k2.a.2" || m.id == "k1.e.1" {
			e = record.Record{Run: record.Equivalence, ID: m.id, Cases: 2000}
			add(record.Record{Run: record.DeviceEquivalence, ID: m.id, Cases: 500})
		}
		add(e)
		simple, strict := record.Record{Run: record.Baselines, Setting: "simple", ID: m.id, Cases: 1},
			record.Record{Run: record.Baselines, Setting: "strict", ID: m.id, Cases: 5}
		if i < 2 {
			strict.First, strict.Failed = 1, 5
		}
		if m.id == "k2.a.1" {
			simple.First, simple.Failed = 1, 1
		}
		add(simple)
		add(strict)
	}
	add(record.Record{Run: record.Sanitizer, Setting: "memcheck", ID: "k2.a.2", Cases: 3, Failed: 3, Reason: "oob"})
	add(record.Record{Run: record.Sanitizer, Setting: "memcheck", ID: "k1.e.1", Cases: 3})
	add(record.Record{Run: record.Regimes, Setting: "bound", ID: "real.x", Cases: 7, First: 1, FirstValues: 7, Failed: 7})
	add(record.Record{Run: record.Strategies, Setting: "adversarial", ID: "real.x", Cases: 9, First: 9, Failed: 1})
	add(record.Record{Run: record.Device, ID: "k1.a.1", Cases: 1, First: 1, Failed: 1, Reason: "value"})
	add(record.Record{Run: record.Device, ID: "k2.a.2", Cases: 100})
	add(record.Record{Run: record.Device, ID: "k2.a.1", Cases: 100})
	add(record.Record{Run: record.Device, ID: "k1.a.2", Cases: 100, NotRun: 100, Message: "out of time"})
	d, err := newDataset(bases, mutants, map[string]*record.File{"ours.jsonl.gz": first, "rest.jsonl.gz": rest})
	if err != nil {
		t.Fatal(err)
	}
	d.explanations = &explanations{
		Missed: map[string]string{"k1.b.1": "too late", "k2.*.1": "nobody draws that"},
		Device: map[string]string{"reason oob_read": "guards see no read past the end"},
	}
	return d
}

func TestDifference(t *testing.T) {
	d := synthetic(t)
	for id, want := range map[string]difference{"k1.a.1": inBits, "k2.a.2": inMemory, "k1.e.1": equivalent,
		"nobody": unsampled} {
		if got := d.difference(id); got != want {
			t.Errorf("difference(%s) = %d, want %d", id, got, want)
		}
	}
	if got := d.samples(record.Equivalence, "k1.e.1"); got != 2000 {
		t.Errorf("samples = %d, want 2000", got)
	}
}

func TestRecall(t *testing.T) {
	d := synthetic(t)
	for _, tt := range []struct {
		name  string
		group func(*subject) bool
		want  share
	}{
		{"known", tuned, share{3, 5}}, // k1.a.1, k1.a.2 and k2.a.2, which differs in memory alone; k1.e.1 does not count
		{"held out", heldOut, share{1, 1}},
		{"real", realBug, share{1, 1}},
		{"all", nil, share{5, 7}},
	} {
		if got := recall(d.judgeOurs(), d.wrong(tt.group)); got != tt.want {
			t.Errorf("recall of %s = %v, want %v", tt.name, got, tt.want)
		}
	}
	bound := d.judgeSetting(record.Regimes, "bound")
	if got, want := recallByValues(bound, d.wrong(realBug)), (share{1, 1}); got != want {
		t.Errorf("recallByValues = %v, want %v", got, want)
	}
	if got, want := recall(d.judgeSetting(record.Baselines, "strict"), d.wrong(nil)), (share{2, 7}); got != want {
		t.Errorf("recall of strict = %v, want %v", got, want)
	}
	cases, seconds := firsts(d.judgeOurs(), d.wrong(tuned))
	if got := fmt.Sprint(cases); got != fmt.Sprint([]int{1, 3, never, never, 4}) {
		t.Errorf("firsts = %s", got)
	}
	if seconds[1] != 1.5 {
		t.Errorf("seconds until case 3 = %v, want 1.5", seconds[1])
	}
	if got := strings.Join(d.seeds[record.Ours], " "); got != "1 2 10" {
		t.Errorf("seeds = %s, want 1 2 10", got)
	}
}

func TestAlarms(t *testing.T) {
	d := synthetic(t)
	kernels, cases := d.ourAlarms()
	if kernels != (share{0, 2}) || cases != (share{0, 1600}) {
		t.Errorf("ourAlarms() = %v, %v, want {0 2} {0 1600}", kernels, cases)
	}
	kernels, cases = d.alarms(d.judgeSetting(record.Baselines, "strict"))
	if kernels != (share{1, 2}) || cases != (share{2, 10}) {
		t.Errorf("alarms(strict) = %v, %v, want {1 2} {2 10}", kernels, cases)
	}
}

func TestExplanations(t *testing.T) {
	d := synthetic(t)
	if got := d.unexplained(); len(got) != 0 {
		t.Errorf("unexplained() = %q, want none", got)
	}
	d.explanations = &explanations{Alarms: map[string]string{"k1": "?"}}
	want := `[alarms] "k1" explains nothing: remove it; [device] has no entry for k2.a.2; ` +
		`[missed] has no entry for k1.b.1; [missed] has no entry for k2.a.1`
	if got := strings.Join(d.unexplained(), "; "); got != want {
		t.Errorf("unexplained() = %s, want %s", got, want)
	}
}

func TestDatasetSeesFaults(t *testing.T) {
	base := []*subject{{id: "k"}}
	for want, list := range map[string][]record.Record{
		`the corpus has no "gone"`: {{Run: record.Ours, ID: "gone"}},
		"stands there twice": {{Run: record.Device, ID: "k", DType: "float32"}, {Run: record.Device, ID: "k",
			DType: "float32"}},
	} {
		_, err := newDataset(base, nil, map[string]*record.File{"x": {Records: list}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("newDataset(%v) = %v, want an error with %q", list, err, want)
		}
	}
}
