package demo

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/corpus"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// quick are kernels that take milliseconds, and what is made of them.
func quick(t *testing.T) []string {
	t.Helper()
	ids, err := Choose([]string{"gather_strided", "dequantize_group_tiles"})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func runDemo(t *testing.T, ids []string, workers int) (*Document, []string) {
	t.Helper()
	var told []string
	doc, err := Run(t.Context(), Options{Dir: t.TempDir(), IDs: ids, Workers: workers, Now: time.Now,
		Progress: func(p Progress) {
			if p.Row != nil {
				told = append(told, p.Row.ID)
				if p.Done != len(told) || p.Total != len(ids) {
					t.Errorf("row %s is number %d of %d, want %d of %d", p.Row.ID, p.Done, p.Total, len(told), len(ids))
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	doc.Seconds = 0
	for i := range doc.Kernels {
		doc.Kernels[i].Seconds = 0
	}
	return doc, told
}

// TestRun: everything is as the corpus says, rows come in order, and the number of workers changes nothing.
func TestRun(t *testing.T) {
	ids := quick(t)
	one, told := runDemo(t, ids, 1)
	if !slices.Equal(told, ids) {
		t.Errorf("rows came as %q, want %q", told, ids)
	}
	three, told := runDemo(t, ids, 3)
	if !slices.Equal(told, ids) || !reflect.DeepEqual(one, three) {
		t.Errorf("with three workers it is\n%+v\nwant\n%+v", three, one)
	}
	if !one.Summary.AsExpected() || one.Summary.Sound != 2 || one.Summary.Broken != len(ids)-2 {
		t.Errorf("summary is %+v", one.Summary)
	}
	for i := range one.Kernels {
		r := &one.Kernels[i]
		if r.Cases == 0 || r.Allclose.Case == "" || r.Broken != (r.Fail != nil) {
			t.Errorf("row %+v", r)
		}
		if r.Fail != nil && elems(t, r.Fail.Smallest) >= elems(t, r.Fail.Case) {
			t.Errorf("%s: nothing smaller than %s was found: %s", r.ID, r.Fail.Case, r.Fail.Smallest)
		}
		if r.Fail != nil && (r.Fail.Short == "" || r.Fail.Diagnosis == "" || r.Fail.Reason == "" || r.Fail.Smallest == "") {
			t.Errorf("%s fails without saying how: %+v", r.ID, r.Fail)
		}
	}
}

// elems is how many elements the inputs of a case have.
func elems(t *testing.T, text string) (n int) {
	t.Helper()
	c, err := opspec.ParseCase(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range c.Inputs {
		n += in.Shape.Elems()
	}
	return n
}

// TestInOrder: a row is told of when it and all before it are finished.
func TestInOrder(t *testing.T) {
	var told []string
	r := &run{rows: []Row{{Entry: Entry{ID: "a"}}, {Entry: Entry{ID: "b"}}, {Entry: Entry{ID: "c"}}},
		ended: make([]bool, 3), opt: Options{Progress: func(p Progress) { told = append(told, p.Row.ID) }}}
	for _, step := range []struct {
		ended int
		want  string
	}{{2, ""}, {0, "a"}, {1, "abc"}} {
		r.finished(step.ended)
		if got := strings.Join(told, ""); got != step.want {
			t.Errorf("after row %d the rows told of are %q, want %q", step.ended, got, step.want)
		}
	}
}

// TestAllclose: what one shape does not show is accepted, and memory that is never written holds zeros, of which some
// are close enough.
func TestAllclose(t *testing.T) {
	doc, _ := runDemo(t, []string{"real.sglang_20819", "real.fla_906"}, 0)
	if a := doc.Kernels[0].Allclose; !a.Accepts || a.Wrong != 0 {
		t.Errorf("a scale that never advances: %+v", a)
	}
	const skipped = 2 * 16 * (1024 - 128) // elements behind the first chunk
	if a := doc.Kernels[1].Allclose; a.Accepts || a.Wrong < skipped*9/10 || a.Wrong >= skipped {
		t.Errorf("chunks that are skipped: %+v, want nearly all of %d elements to be wrong", a, skipped)
	}
}

// TestWhole is the demo: every right kernel passes, every bug is found.
func TestWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 15 seconds of one processor")
	}
	doc, _ := runDemo(t, Kernels(), 0)
	if !doc.Summary.AsExpected() {
		t.Errorf("not as the corpus says: %+v", doc.Summary)
		for i := range doc.Kernels {
			if r := &doc.Kernels[i]; r.Broken != r.Verdict.Failed() || r.Verdict == verdict.NotRun {
				t.Errorf("%s: %s after %d cases, %s %+v", r.ID, r.Verdict, r.Cases, r.Message, r.Fail)
			}
		}
	}
	if s := doc.Summary; 2*s.AllcloseAccepts < s.Broken {
		t.Errorf("allclose accepts %d of %d, want more than half: it is given too much", s.AllcloseAccepts, s.Broken)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Dir: t.TempDir(), IDs: quick(t), Now: time.Now}); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was cancelled gives %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Dir: file, IDs: quick(t), Now: time.Now}); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// TestRegular: every kernel has its one shape, of powers of two and with several tiles.
func TestRegular(t *testing.T) {
	var ids []string
	for _, k := range corpus.Kernels() {
		ids = append(ids, k.Name)
	}
	dir := t.TempDir()
	if err := corpus.WriteProject(dir, corpus.MutantArch, ids...); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(filepath.Join(dir, config.FileName))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{}
	r.project.Config = cfg
	for _, e := range All() {
		if e.Broken {
			continue
		}
		op, entry, c, err := r.regular(&Row{Entry: e})
		if err != nil {
			t.Errorf("%s: %v", e.ID, err)
			continue
		}
		if c.DType != op.DTypes[0] {
			t.Errorf("%s: the case has %s, want %s", e.ID, c.DType, op.DTypes[0])
		}
		elems := 0
		for _, in := range c.Inputs {
			elems = max(elems, in.Shape.Elems())
			other := slices.ContainsFunc(gen.ValueDistributions(), func(n gen.Named) bool { return n.Name == in.Values })
			if in.Layout != tensor.Contiguous || in.Values != "normal" && other { // indexes and scales have their own
				t.Errorf("%s: %s is %s and %s", e.ID, in.Name, in.Layout, in.Values)
			}
		}
		if elems < 1<<10 || elems > 1<<17 {
			t.Errorf("%s: the largest input of %s has %d elements", e.ID, c.String(), elems)
		}
		for _, d := range c.Dims {
			derived := slices.ContainsFunc(entry.Schema.Dims, func(s opspec.Dim) bool { return s.Name == d.Name && s.Derived() })
			if d.Value&(d.Value-1) != 0 && !derived {
				t.Errorf("%s: %s is %d", e.ID, d.Name, d.Value)
			}
		}
	}
}

func TestFarApart(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		got, want float64
		far       int
	}{
		{1, 1, 0}, {1.0199, 1, 0}, {1.0201, 1, 1}, {0.0099, 0, 0}, {0.0101, 0, 1}, {-100, -101.1, 1},
		{nan, 1, 1}, {nan, nan, 1},
		{inf, inf, 0}, {inf, 1, 1}, {1, inf, 1}, {-inf, inf, 1},
	} {
		got := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2), []float64{3, tt.got})
		want := &compare.Want{DType: dtype.Float32, Shape: tensor.MustShape(2), Value: []float64{3, tt.want}}
		if far := farApart(got, want); far != tt.far {
			t.Errorf("farApart(%v, %v) = %d, want %d", tt.got, tt.want, far, tt.far)
		}
		want.Undetermined = []bool{false, true}
		if far := farApart(got, want); far != 0 {
			t.Errorf("farApart(%v, %v) = %d where the operator decides nothing", tt.got, tt.want, far)
		}
	}
	exact := &compare.Want{DType: dtype.Int32, Shape: tensor.MustShape(1),
		Exact: tensor.FromFloat64s(dtype.Int32, tensor.MustShape(1), []float64{7})}
	if far := farApart(tensor.FromFloat64s(dtype.Int32, tensor.MustShape(1), []float64{8}), exact); far != 1 {
		t.Errorf("8 for 7: %d far apart", far)
	}
	// The reference is rounded to the format of the output: half a place of float16 is more than nothing.
	rounded := &compare.Want{DType: dtype.Float16, Shape: tensor.MustShape(1), Value: []float64{65519}}
	if far := farApart(tensor.FromFloat64s(dtype.Float16, tensor.MustShape(1), []float64{65504}), rounded); far != 0 {
		t.Errorf("65504 for 65519 in float16: %d far apart", far)
	}
}

func TestSummary(t *testing.T) {
	row := func(broken, accepts bool, v verdict.Verdict) *Row {
		return &Row{Entry: Entry{Broken: broken}, Allclose: Allclose{Accepts: accepts}, Verdict: v, Cases: 2}
	}
	for _, tt := range []struct {
		rows []*Row
		want Summary
		good bool
	}{
		{nil, Summary{}, true},
		{[]*Row{row(false, true, verdict.Pass), row(true, true, verdict.Fail), row(true, false, verdict.Error)},
			Summary{Sound: 1, Broken: 2, Cases: 6, AllcloseAccepts: 1, Found: 2}, true},
		{[]*Row{row(false, true, verdict.Fail)}, Summary{Sound: 1, Cases: 2, FalseAlarms: 1}, false},
		{[]*Row{row(true, true, verdict.Pass)}, Summary{Broken: 1, Cases: 2, AllcloseAccepts: 1}, false},
		{[]*Row{row(true, false, verdict.NotRun), row(false, true, verdict.Undecided)},
			Summary{Sound: 1, Broken: 1, Cases: 4, NotRun: 2}, false},
	} {
		var got Summary
		for _, r := range tt.rows {
			got.add(r)
		}
		if got != tt.want || got.AsExpected() != tt.good {
			t.Errorf("%d rows: %+v, as expected: %v, want %+v, %v", len(tt.rows), got, got.AsExpected(), tt.want, tt.good)
		}
	}
}

func TestDiagnosis(t *testing.T) {
	site := &verdict.Site{Source: "internal/corpus/kernels/k.cu", Line: 7, Thread: [3]int{3, 0, 0}}
	wrong := verdict.Output{Name: "y", Mismatched: 1}
	pattern := verdict.Output{Name: "y", Mismatched: 1, Diagnosis: []verdict.Finding{{Sentence: "the last column"}}}
	for _, tt := range []struct {
		first, smallest verdict.Result
		want            string
		ofFirst         bool
	}{
		{verdict.Result{Outputs: []verdict.Output{pattern}}, verdict.Result{Findings: []verdict.Finding{{Kind: "race",
			Sentence: "k.ptx:9 (internal/corpus/kernels/k.cu:7): block 0,0,0, thread 3,0,0: reads what " +
				"internal/corpus/kernels/k.cu:5 wrote", Site: site}}}, "race at k.cu:7: reads what k.cu:5 wrote", false},
		{verdict.Result{}, verdict.Result{Findings: []verdict.Finding{{Kind: "unwritten",
			Sentence: "k.ptx:9 (internal/corpus/kernels/k.cu:7): y has gaps", Site: site}}},
			"unwritten at k.cu:7: y has gaps", false},
		{verdict.Result{}, verdict.Result{Findings: []verdict.Finding{{Kind: "deadlock", Sentence: "k.ptx:9: all wait",
			Site: &verdict.Site{}}}}, "deadlock at k.ptx:9: all wait", false},
		{verdict.Result{Case: "a", Outputs: []verdict.Output{{Name: "x"}, pattern}}, verdict.Result{Case: "b", Message: "m"},
			"the last column", true},
		{verdict.Result{Case: "a", Outputs: []verdict.Output{pattern}}, verdict.Result{Case: "a"}, "the last column", false},
		{verdict.Result{Outputs: []verdict.Output{wrong}}, verdict.Result{Message: `output "y": 1 of 2`,
			Outputs: []verdict.Output{wrong}}, "1 of 2", false},
		{verdict.Result{Outputs: []verdict.Output{wrong}}, verdict.Result{Message: `output "y": 1 of 2`,
			Outputs: []verdict.Output{wrong, {Name: "x"}}}, `output "y": 1 of 2`, false},
	} {
		if got, ofFirst := diagnosis(&tt.first, &tt.smallest); got != tt.want || ofFirst != tt.ofFirst {
			t.Errorf("diagnosis is %q, of the first case: %v, want %q, %v", got, ofFirst, tt.want, tt.ofFirst)
		}
	}
}

func TestShort(t *testing.T) {
	c, err := opspec.ParseCase("k dtype=float16 dims=B:1,H:33 in=x:float16[1,33]:strided:normal " +
		"in=y:float16[33]:contiguous:normal seed=1 gen=1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := short(c), "float16 B=1 H=33 strided x"; got != want {
		t.Errorf("short is %q, want %q", got, want)
	}
}

func TestChoose(t *testing.T) {
	all, err := Choose(nil)
	if err != nil || !slices.Equal(all, Kernels()) {
		t.Errorf("Choose() = %q, %v", all, err)
	}
	entries := map[string]Entry{}
	for _, e := range All() {
		entries[e.ID] = e
		if e.What == "" || e.Op == "" || e.Language == "" || e.Shown != slices.Contains(all, e.ID) {
			t.Errorf("entry %+v", e)
		}
		if _, ok := oracle.Lookup(e.Op); !ok {
			t.Errorf("%s: no op %q", e.ID, e.Op)
		}
	}
	got, err := Choose([]string{"softmax_block", "layernorm_tiles", "softmax_block"})
	if err != nil || !slices.Equal(got[:2], []string{"layernorm_tiles", "softmax_block"}) {
		t.Errorf("Choose(softmax_block, layernorm_tiles) = %q, %v", got, err)
	}
	for _, id := range got[2:] {
		if e := entries[id]; !e.Broken || !e.Shown || !slices.Contains(got[:2], e.Kernel) {
			t.Errorf("%s was chosen with %q", id, got[:2])
		}
	}
	_, err = Choose([]string{"softmax_blok"})
	if diag.CodeOf(err) != corpus.UnknownID || !strings.Contains(diag.HintOf(err), "softmax_block") {
		t.Errorf("Choose(softmax_blok): %v, hint %q", err, diag.HintOf(err))
	}
}
