package report

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// shards splits a campaign of n passing cases as campaign.Shard does.
func shards(n, parts int, change func(*verdict.Result)) []*Document {
	split := make([][]verdict.Result, parts)
	for i := range n {
		r := passing(i, []string{"a", "b"}[i*2/n], "float32", 1e-8)
		if change != nil {
			change(&r)
		}
		split[i%parts] = append(split[i%parts], r)
	}
	var docs []*Document
	for i, results := range split {
		d := documentOf(results...)
		d.Summary.Shard, d.Summary.PlannedTotal = fmt.Sprintf("%d/%d", i+1, parts), n
		d.Summary.Campaign, d.Name = fmt.Sprintf("c-%d", i+1), fmt.Sprintf("shard%d.json", i+1)
		d.Summary.Started = started.Add(time.Duration(i) * time.Second)
		docs = append(docs, d)
	}
	return docs
}

func TestMergeIsTheWhole(t *testing.T) {
	whole := shards(10, 1, nil)[0]
	for _, parts := range []int{1, 2, 3, 4, 10, 13} {
		docs := shards(10, parts, nil)
		if parts > 2 {
			docs[0], docs[2] = docs[2], docs[0]
		}
		got, err := Merge(docs)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Results, whole.Results) || !reflect.DeepEqual(got.Summary.Ops, whole.Summary.Ops) ||
			got.Summary.Counts != whole.Summary.Counts || !got.Summary.Complete || got.Summary.Planned != 10 {
			t.Errorf("%d parts: %+v", parts, got.Summary)
		}
		if s := got.Source(); s.ExitCode() != 0 {
			t.Errorf("%d parts: exit code %d", parts, s.ExitCode())
		}
	}
}

func TestMergeMissingPart(t *testing.T) {
	docs := shards(10, 4, nil)
	got, err := Merge(append(docs[:1:1], docs[2:]...))
	if err != nil {
		t.Fatal(err)
	}
	s := got.Source()
	if got.Summary.Complete || s.ExitCode() != 3 || got.Summary.Planned != 10 || !reflect.DeepEqual(got.Notes,
		[]string{"shard 2/4 is missing"}) || s.Conclusion() != "not green: 7 of 10 planned cases were finished" {
		t.Errorf("%+v, %q, %s", got.Summary, got.Notes, s.Conclusion())
	}
	// A part that stopped early is there, and the whole is not complete all the same.
	docs = shards(10, 2, nil)
	cut := documentOf(docs[1].Results[:2]...)
	cut.Summary.Shard, cut.Summary.PlannedTotal, cut.Summary.Planned = "2/2", 10, 5
	cut.Summary.Complete, cut.Summary.Stopped = false, "cancelled"
	if got, err = Merge([]*Document{docs[0], cut}); err != nil {
		t.Fatal(err)
	}
	if s := got.Source(); got.Summary.Complete || s.ExitCode() != 3 || got.Summary.Stopped != "cancelled" {
		t.Errorf("%+v", got.Summary)
	}
	// Its repetition completes it.
	if got, err = Merge([]*Document{docs[0], cut, docs[1]}); err != nil {
		t.Fatal(err)
	}
	if !got.Summary.Complete || got.Summary.Total != 10 || got.Summary.Planned != 10 {
		t.Errorf("%+v", got.Summary)
	}
}

func TestMergeDuplicates(t *testing.T) {
	docs := shards(4, 2, nil)
	again := shards(4, 2, func(r *verdict.Result) {
		r.Duration, r.Outputs[0].MaxAbs, r.Time = 5, 2e-8, r.Time.Add(time.Hour)
	})
	for _, all := range [][]*Document{{docs[0], docs[1], again[0]}, {again[0], docs[1], docs[0]}} {
		got, err := Merge(all)
		if err != nil {
			t.Fatal(err)
		}
		if got.Summary.Total != 4 || got.Results[0].MaxAbs() != 2e-8 || got.Results[1].MaxAbs() != 1e-8 {
			t.Errorf("%+v", got.Results)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	change := func(f func(d *Document)) []*Document {
		docs := shards(6, 3, nil)
		f(docs[1])
		return docs
	}
	failing := shards(6, 3, func(r *verdict.Result) { r.Verdict, r.Reason = verdict.Fail, verdict.Mismatch })
	other := shards(6, 3, func(r *verdict.Result) { r.Case = strings.Replace(r.Case, "seed=1", "seed=2", 1) })
	for _, c := range []struct {
		name string
		docs []*Document
		code diag.Code
		part string
	}{
		{"nothing", nil, NotMergeable, "nothing to merge"},
		{"seed", change(func(d *Document) { d.Summary.Seed = 7 }), NotMergeable, `shard2.json: seed "7"`},
		{"kind", change(func(d *Document) { d.Summary.Kind = "fuzz" }), NotMergeable, `kind "fuzz", want "ci"`},
		{"project", change(func(d *Document) { d.Summary.Project = "x" }), NotMergeable, `project "x"`},
		{"version", change(func(d *Document) { d.Version = "9" }), NotMergeable, `version of gpuemu "9"`},
		{"plan", change(func(d *Document) { d.Summary.PlannedTotal = 7 }), NotMergeable, `number of cases "7"`},
		{"parts", change(func(d *Document) { d.Summary.Shard = "2/4" }), NotMergeable, `number of shards "4"`},
		{"whole and part", change(func(d *Document) { d.Summary.Shard = "" }), NotMergeable, `number of shards "1"`},
		{"no shard", change(func(d *Document) { d.Summary.Shard = "4/3" }), NotMergeable, `shard "4/3"`},
		{"huge shard", change(func(d *Document) { d.Summary.Shard = "1/2000000000" }), NotMergeable, `shard "1/2000000000"`},
		{"foreign result", change(func(d *Document) { d.Results[0].Index = 0 }), NotMergeable, "result 0 does not belong"},
		{"index beyond", change(func(d *Document) { d.Results[0].Index = 7 }), NotMergeable, "result 7 does not belong"},
		{"contradiction", append(shards(6, 3, nil), failing[1]), Contradiction,
			"is fail (mismatch) here and pass in shard2.json"},
		{"other case", append(shards(6, 3, nil), other[2]), NotMergeable, "in shard3.json"},
	} {
		got, err := Merge(c.docs)
		if got != nil || diag.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: Merge = %v, %v, want code %s and %q", c.name, got != nil, err, c.code, c.part)
		}
	}
}

// TestMergeBaselines: comparing the parts and joining gives what joining and comparing gives.
func TestMergeBaselines(t *testing.T) {
	var base []verdict.Result
	for i := range 8 {
		base = append(base, passing(i, []string{"a", "b"}[i*2/10], "float32", 1e-9))
	}
	base = append(base, passing(20, "gone", "float32", 0))
	b := documentOf(base...)
	docs := shards(10, 3, func(r *verdict.Result) {
		if r.Index == 4 || r.Index == 5 {
			r.Verdict, r.Reason = verdict.Fail, verdict.Mismatch
		}
	})
	for _, d := range docs {
		d.Baseline = compared(t, b, d, 0.1)
		d.Summary.Regressions = d.Baseline.Regressed
	}
	got, err := Merge(docs)
	if err != nil {
		t.Fatal(err)
	}
	want := compared(t, b, got, 0.1)
	if len(got.Baseline.Regressions) != len(want.Regressions) || got.Summary.Regressions != want.Regressed {
		t.Errorf("regressions %+v, want %+v", got.Baseline.Regressions, want.Regressions)
	}
	g, w := *got.Baseline, *want
	g.Regressions, w.Regressions = nil, nil // in the order of the parts
	if !reflect.DeepEqual(g, w) {
		t.Errorf("joined %+v, want %+v", g, w)
	}
}
