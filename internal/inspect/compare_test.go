package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gpuemu/internal/artifact"
	"gpuemu/internal/diag"
)

// kernel is a module with one kernel that adds a constant n times.
func kernel(name, constant string, n int) string {
	return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " + name + "(.param .u64 p)\n{\n" +
		"\t.reg .b64 %rd<2>;\n\t.reg .f32 %f<2>;\n\tld.param.u64 %rd1, [p];\n\tld.global.f32 %f1, [%rd1];\n" +
		strings.Repeat("\tadd.f32 %f1, %f1, "+constant+";\n", n) + "\tst.global.f32 [%rd1], %f1;\n\tret;\n}\n"
}

const one, two = "0f3F800000", "0f40000000"

// snapshot is what is kept of modules, by name; it survives JSON, as everything that is kept must.
func snapshot(t testing.TB, modules map[string]string) *Snapshot {
	t.Helper()
	var targets []Target
	for name, text := range modules {
		targets = append(targets, Target{Name: name, Text: &text})
	}
	doc, err := Looker{}.Look(context.Background(), targets)
	if err != nil || len(doc.Unread) > 0 {
		t.Fatalf("Look: %v, %+v", err, doc.Unread)
	}
	body, err := json.Marshal(doc.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	s, err := DecodeSnapshot("test", body)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompare(t *testing.T) {
	then := snapshot(t, map[string]string{"same": kernel("same", one, 2), "constant": kernel("constant", one, 2),
		"longer": kernel("longer", one, 2), "gone": kernel("gone", one, 1), "renamed": kernel("renamed", one, 2)})
	now := snapshot(t, map[string]string{"same": kernel("same", one, 2), "constant": kernel("constant", two, 2),
		"longer": kernel("longer", one, 9), "fresh": kernel("fresh", one, 1),
		"renamed": strings.ReplaceAll(kernel("renamed", one, 2), "%f", "%value")})
	c := Compare(then, now, 0.1)
	if c.Common != 4 || c.Changed != 2 || c.Regressed != 1 || c.New != 1 || c.Vanished != 1 || c.Threshold != 0.1 {
		t.Errorf("counts are %+v", c)
	}
	want := map[string]string{"same": "same ", "constant": "changed constants", "longer": "changed structure",
		"gone": "vanished ", "fresh": "new ", "renamed": "same "}
	for i := range c.Kernels {
		k := &c.Kernels[i]
		rank := ""
		if k.Code != nil {
			rank = k.Code.Rank
		}
		if got := string(k.Status) + " " + rank; got != want[k.Label()] {
			t.Errorf("%s is %q, want %q", k.Label(), got, want[k.Label()])
		}
		delete(want, k.Label())
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	e := c.Kernels[0].Code.Changes[0]
	if c.Kernels[0].Name != "constant" || e.Kind != "constant" || e.New == nil || e.New.Line != 10 ||
		!strings.Contains(e.Message, two) {
		t.Errorf("the change of the constant is %+v", e)
	}
}

// TestCompareByName: kernels of the same name in two entries of gpuemu.toml are not taken for each other.
func TestCompareByName(t *testing.T) {
	then := snapshot(t, map[string]string{"fast": kernel("k", one, 1), "slow": kernel("k", one, 9)})
	now := snapshot(t, map[string]string{"fast": kernel("k", one, 1), "slow": kernel("k", one, 9)})
	if c := Compare(then, now, 0.1); c.Common != 2 || c.Changed != 0 {
		t.Errorf("counts are %+v", c)
	}
}

// TestCompareWithoutText: without the text of one side figures and digests decide, and damage of a text is said.
func TestCompareWithoutText(t *testing.T) {
	then := snapshot(t, map[string]string{"k": kernel("k", one, 2)})
	now := snapshot(t, map[string]string{"k": kernel("k", two, 2)})
	digest := then.Kernels[0].Metrics.Sources[0].Digest
	text := then.Texts[digest]
	delete(then.Texts, digest)
	if c := Compare(then, now, 0.1); c.Changed != 1 || c.Kernels[0].Code != nil {
		t.Errorf("without a text: %+v", c.Kernels[0])
	}
	then.Texts[digest] = text[:len(text)/2]
	if c := Compare(then, now, 0.1); c.Kernels[0].Code == nil || c.Kernels[0].Code.Failed == "" {
		t.Errorf("with half a text: %+v", c.Kernels[0])
	}
	then.Texts[digest] = pack(".version 8.0\nnonsense")
	if c := Compare(then, now, 0.1); c.Kernels[0].Code == nil || !strings.Contains(c.Kernels[0].Code.Failed, ":2:1:") {
		t.Errorf("with nonsense: %+v", c.Kernels[0].Code)
	}
}

// TestChangesAreLimited: the deepest changes are listed, the rest is counted.
func TestChangesAreLimited(t *testing.T) {
	var old, cur string
	for i := range 3 * maxChanges {
		old += fmt.Sprintf("\tadd.f32 %%f1, %%f1, 0f3F80%04X;\n", i)
		cur += fmt.Sprintf("\tadd.f32 %%f1, %%f1, 0f4080%04X;\n", i)
	}
	body := func(code string) string {
		return strings.Replace(kernel("k", one, 1), "\tadd.f32 %f1, %f1, "+one+";\n", code, 1)
	}
	c := Compare(snapshot(t, map[string]string{"k": body(old)}), snapshot(t, map[string]string{"k": body(cur)}), 0.1)
	code := c.Kernels[0].Code
	if code == nil || len(code.Changes) != maxChanges || code.Omitted != 2*maxChanges {
		t.Errorf("%d changes listed, %d omitted", len(code.Changes), code.Omitted)
	}
}

// TestHarmlessEdits: where both texts are there, what they do decides and not their digests; a digest of machine code
// still counts.
func TestHarmlessEdits(t *testing.T) {
	const sum = "\tadd.f32 %f1, %f1, " + one + ";\n"
	with := func(code string) map[string]string {
		return map[string]string{"k": strings.Replace(kernel("k", one, 1), sum, code, 1)}
	}
	then := snapshot(t, with(sum))
	now := snapshot(t, with("\tadd.f32 %f1, "+one+", %f1;\n"))
	was, is := then.Kernels[0].Metrics.Sources[0], now.Kernels[0].Metrics.Sources[0]
	if was.Code == is.Code {
		t.Fatal("the digests are equal")
	}
	c := Compare(then, now, 0.1)
	k := &c.Kernels[0]
	if c.Changed != 0 || k.Status != artifact.Same || k.Code != nil || k.CodeChanged == nil || *k.CodeChanged {
		t.Errorf("operands that changed places: %+v", k)
	}
	for side, code := range map[*Snapshot]string{then: "one", now: "two"} {
		m := &side.Kernels[0].Metrics
		m.Sources = append(m.Sources, artifact.Source{Kind: artifact.SASS, Code: code})
	}
	if c = Compare(then, now, 0.1); c.Changed != 1 || !*c.Kernels[0].CodeChanged {
		t.Errorf("other machine code: %+v", c.Kernels[0])
	}
	delete(then.Texts, was.Digest)
	if c = Compare(then, now, 0.1); c.Changed != 1 {
		t.Errorf("without a text: %+v", c.Kernels[0])
	}
}

// TestManyKernels: a text is read once and not once per kernel, or files with thousands of kernels take minutes.
func TestManyKernels(t *testing.T) {
	bytes := func(n int) float64 {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("kernel_%d", i))
		}
		text := module(names...)
		then := snapshot(t, map[string]string{"all": text})
		now := snapshot(t, map[string]string{"all": strings.ReplaceAll(text, "%f", "%g")})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if c := Compare(then, now, 0.1); c.Common != n || c.Changed != 0 {
			t.Errorf("%d kernels: %+v", n, c)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if few, many := bytes(20), bytes(320); many > 40*few {
		t.Errorf("sixteen times the kernels take %.0f times the memory", many/few)
	}
}

func TestDropTexts(t *testing.T) {
	s := snapshot(t, map[string]string{"a": kernel("a", one, 1), "b": kernel("b", one, 1)})
	s.Kernels = s.Kernels[:1]
	s.DropTexts()
	if _, ok, err := s.Text(&s.Kernels[0].Metrics); len(s.Texts) != 1 || !ok || err != nil {
		t.Errorf("%d texts are left, %v, %v", len(s.Texts), ok, err)
	}
}

// TestCheckFigures: a baseline with figures that no kernel has, or with a kernel twice, compares with nothing real.
// Kernels of one name in machine code are no fault, and what is kept is never refused.
func TestCheckFigures(t *testing.T) {
	fresh := func() *Snapshot { return snapshot(t, map[string]string{"k": kernel("k", one, 1)}) }
	for name, spoil := range map[string]func(*artifact.Metrics){
		"registers":             func(m *artifact.Metrics) { m.Registers.Value = -1 },
		"bytes of spill stores": func(m *artifact.Metrics) { m.SpillStores = &artifact.Figure{Value: -4} },
		"bytes of local memory": func(m *artifact.Metrics) { m.Local.Value = -8 },
		"instructions":          func(m *artifact.Metrics) { m.PTXCode.Total = -1 },
		"bytes of constant memory": func(m *artifact.Metrics) {
			m.Constant = []artifact.Bank{{Bytes: artifact.Figure{Value: -1}}}
		},
	} {
		s := fresh()
		spoil(&s.Kernels[0].Metrics)
		if err := s.Check("b%d.json"); diag.CodeOf(err) != BadSnapshot ||
			!strings.Contains(err.Error(), `b%d.json: stored kernel 0, "k", has fewer than 0 `+name) {
			t.Errorf("negative %s: %v", name, err)
		}
	}
	s := fresh()
	s.Kernels = append(s.Kernels, s.Kernels[0])
	if err := s.Check("b"); diag.CodeOf(err) != BadSnapshot || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("a kernel twice: %v", err)
	}
	twins := NewSnapshot()
	for range 2 {
		twins.Add("k", s.Kernels[0].Metrics, nil)
		twins.Add("k", artifact.Metrics{Kernel: "k", Sources: []artifact.Source{{Kind: artifact.Cubin}}}, nil)
	}
	if err := twins.Check("b"); err != nil || len(twins.Kernels) != 3 {
		t.Errorf("%d kernels are kept: %v", len(twins.Kernels), err)
	}
}

// FuzzCompare: kept kernels may come from anywhere, such as a report in a cache.
func FuzzCompare(f *testing.F) {
	seed, err := json.Marshal(snapshot(f, map[string]string{"k": kernel("k", one, 1)}))
	if err != nil {
		f.Fatal(err)
	}
	now := snapshot(f, map[string]string{"k": kernel("k", two, 2)})
	f.Add(seed, kernel("k", one, 3))
	f.Add(seed, ".version 8.0\n.target sm_80\n.visible .entry k() { ret; }")
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		then, err := DecodeSnapshot("fuzz", body)
		if err != nil {
			return
		}
		for i := range then.Kernels {
			if src, ok := then.Kernels[i].Metrics.Source(artifact.PTX); ok {
				then.Texts[src.Digest] = pack(text)
			}
		}
		if c := Compare(then, now, 0.1); c.Common+c.New+c.Vanished != len(c.Kernels) {
			t.Errorf("counts do not add up: %+v", c)
		}
	})
}
