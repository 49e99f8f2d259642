package report

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// sized is a result of a case with that size, layout and attribute.
func sized(index int, dt string, n int, failed bool) verdict.Result {
	r := passing(index, "softmax", dt, 0)
	if failed {
		r = wrong(index, "softmax", dt, "")
		r.Outputs[0].Diagnosis = nil
	}
	r.Case = fmt.Sprintf("softmax dtype=%s dims=B:%d,H:%d attrs=causal:%v in=input:%s[%d,%d]:contiguous:normal "+
		"seed=%d gen=1", dt, 2+index%3, n, index%2 == 0, dt, 2+index%3, n, index)
	return r
}

func groups(t *testing.T, results ...verdict.Result) []verdict.Group {
	t.Helper()
	list, err := Groups(Slice(results))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sizedAll has a result for each size; those that fail chooses fail.
func sizedAll(dt string, fails func(n int) bool, sizes ...int) []verdict.Result {
	var out []verdict.Result
	for i, n := range sizes {
		out = append(out, sized(i, dt, n, fails(n)))
	}
	return out
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		fails func(n int) bool
		sizes []int
		want  string
	}{
		{func(n int) bool { return n%4 != 0 }, []int{1, 4, 6, 8, 9, 12, 17, 20}, "H is not a multiple of 4"},
		{func(n int) bool { return n%64 == 0 }, []int{64, 128, 1, 96, 32, 192, 7}, "H is a multiple of 64"},
		{func(n int) bool { return n > 1000 }, []int{1, 1024, 16, 2047, 33, 4096, 1000}, "H is 1024 or more"},
		{func(n int) bool { return n <= 4 }, []int{1, 2, 4, 8, 16, 17, 3}, "H is 4 or less"},
		// One passing case, or one failing one, takes it away.
		{func(n int) bool { return n%4 != 0 && n != 9 }, []int{1, 4, 6, 8, 9, 12, 17, 20}, ""},
		{func(n int) bool { return n%4 != 0 || n == 8 }, []int{1, 4, 6, 8, 9, 12, 17, 20}, ""},
		// Two cases are a coincidence.
		{func(n int) bool { return n%4 != 0 }, []int{1, 4, 8, 9, 12, 20}, ""},
		{func(n int) bool { return n%4 != 0 }, []int{1, 3, 5, 8, 9, 12}, ""},
		{func(int) bool { return true }, []int{1, 2, 3, 4, 5}, ""},
	} {
		got := groups(t, sizedAll("float32", c.fails, c.sizes...)...)
		if len(got) != 1 || got[0].Pattern != c.want {
			t.Errorf("sizes %v: %+v, want one group with pattern %q", c.sizes, got, c.want)
		}
	}
}

// An option explains failures as well as a size does.
func TestPatternOfAnOption(t *testing.T) {
	var results []verdict.Result
	for i, n := range []int{3, 5, 4, 8, 16, 7, 9, 8} {
		results = append(results, sized(i, "float32", n, i%2 == 0))
	}
	if got := groups(t, results...); len(got) != 1 || got[0].Pattern != "causal is true" {
		t.Errorf("%+v, want one group: causal is true", got)
	}
}

// A case without elements passes whatever its sizes.
func TestPatternIgnoresEmptyCases(t *testing.T) {
	results := sizedAll("float32", func(n int) bool { return n%4 != 0 }, 1, 4, 6, 8, 9, 12, 17, 20)
	empty := sized(8, "float32", 7, false)
	empty.Outputs[0].Elements = 0
	undecidedCase := sized(9, "float32", 7, false)
	undecidedCase.Verdict = verdict.Undecided
	got := groups(t, append(results, empty, undecidedCase)...)
	if len(got) != 1 || got[0].Pattern != "H is not a multiple of 4" || got[0].Passed != 4 ||
		got[0].PassedEmpty != 1 {
		t.Errorf("%+v, want H is not a multiple of 4 and 4 that pass", got)
	}
	want := "softmax fails when H is not a multiple of 4: so it is in all 4 cases that fail like this and in none of " +
		"the 4 that pass and have elements"
	if lines := groupLines(&got[0], "the first"); lines[0] != want {
		t.Errorf("%q, want %q", lines[0], want)
	}
}

// A second bug hides no pattern: neither one of another kind, nor one of wrong values with another cause. Cases that
// the pattern was not tested on are not counted.
func TestPatternsOfTwoBugs(t *testing.T) {
	quarter := sizedAll("float32", func(n int) bool { return n%4 != 0 }, 1, 4, 6, 8, 9, 12, 17, 20)
	unread := quarter[0]
	unread.Case = "a text of another version"
	for name, second := range map[string]func(r *verdict.Result){
		"raised": func(r *verdict.Result) { *r = raised(r.Index, "softmax", "float32", r.Case) },
		"sign": func(r *verdict.Result) {
			r.Outputs[0].Diagnosis = []verdict.Finding{{Kind: compare.FindSign}}
		},
	} {
		results := append(slices.Clone(quarter), unread)
		for i, n := range []int{512, 514, 1024, 1027} {
			r := sized(20+i, "float32", n, true)
			text := r.Case
			second(&r)
			r.Case = text
			results = append(results, r)
		}
		if name == "sign" { // of small ones one cause is known, too, so that the two are told apart
			for i := range results[:9] {
				if results[i].Verdict.Failed() {
					results[i].Outputs[0].Diagnosis = []verdict.Finding{{Kind: compare.FindScale}}
				}
			}
		}
		got := groups(t, results...)
		var lines []string
		for i := range got {
			lines = append(lines, groupLines(&got[i], "the first")[0])
		}
		const all = ": so it is in all 4 cases that fail like this and in none of the 4 that pass"
		if want := []string{"softmax fails when H is not a multiple of 4" + all,
			"softmax fails when H is 512 or more" + all}; !slices.Equal(lines, want) {
			t.Errorf("%s: %q, want %q", name, lines, want)
		}
	}
}

// One bug in two dtypes is one group; another exception, another cause or another op is another one.
func TestGroups(t *testing.T) {
	quarter := func(n int) bool { return n%4 != 0 }
	results := append(sizedAll("float32", quarter, 1, 4, 6, 8, 9, 12), sizedAll("float16", quarter, 2, 8, 7)...)
	results[0].Outputs[0].Diagnosis = []verdict.Finding{{Kind: compare.FindUnwritten}} // what little there is to see
	got := groups(t, results...)
	want := []verdict.Group{{Op: "softmax", DTypes: []string{"float32", "float16"},
		Kinds: []string{"mismatch/unwritten", "mismatch"}, Pattern: "H is not a multiple of 4", Cases: 5, Tested: 5,
		Passed: 4, First: results[0].Case}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("one bug in two dtypes: %+v, want %+v", got, want)
	}

	key, value := raised(10, "softmax", "float32", ""), raised(11, "softmax", "float32", "")
	key.Message = "k.py:f raised KeyError: x"
	scale, sign, unclear := sized(12, "float32", 1, true), sized(13, "float32", 2, true), sized(14, "float32", 8, true)
	scale.Outputs[0].Diagnosis = []verdict.Finding{{Kind: compare.FindRowScale}}
	sign.Outputs[0].Diagnosis = []verdict.Finding{{Kind: compare.FindSign}}
	other := wrong(15, "matmul", "float32", "")
	got = groups(t, key, value, scale, sign, unclear, other, scale)
	var kinds []string
	for _, g := range got {
		kinds = append(kinds, fmt.Sprint(g.Op, " ", strings.Join(g.Kinds, ","), " ", g.Cases))
	}
	if wantKinds := []string{"softmax raised/KeyError 1", "softmax raised/ValueError 1", "softmax mismatch/scale 2",
		"softmax mismatch/sign 1", "softmax mismatch 1", "matmul mismatch/tile 1"}; !reflect.DeepEqual(kinds, wantKinds) {
		t.Errorf("groups %q, want %q", kinds, wantKinds)
	}
	// Where one cause is known, failures of few elements have the same.
	if got := groups(t, scale, unclear); len(got) != 1 || got[0].Cases != 2 {
		t.Errorf("%+v, want one group of 2", got)
	}
}

// grouped is a report with ten failures that are two bugs, of one of which the smallest case is known.
func grouped(t *testing.T) *Document {
	t.Helper()
	results := sizedAll("float32", func(n int) bool { return n%4 != 0 }, 1, 4, 6, 8, 9, 12, 17, 20)
	for i := range 6 {
		results = append(results, raised(8+i, "matmul", "float16", ""))
	}
	d := documentOf(results...)
	d.Summary.Groups = groups(t, results...)
	small := sized(0, "float32", 1, true)
	from := verdict.Seed(77)
	small.Case, small.ShrunkFrom = small.Case+" small", &from
	d.Summary.Groups[0].Minimal = &small
	d.Summary.Groups[1].Unminimized = "the clock"
	return d
}

// Every format reports a bug once and agrees with the others on what failed.
func TestGroupsInReports(t *testing.T) {
	d := grouped(t)
	s := d.Source()
	out := string(written(t, text(TextOptions{}), s))
	for _, want := range []string{"softmax fails when H is not a multiple of 4: so it is in all 4 cases that fail " +
		"like this and in none of the 4 that pass\n", "the smallest of 4 cases that fail alike (float32)\n", "small\n",
		"and 3 more; -v shows them all", "the first of 6 cases that fail alike (float16)\n", "not minimized: the clock\n",
		"and 5 more", "first of them: " + ReplayCase(d.Results[0].Case)} {
		if !strings.Contains(out, want) {
			t.Errorf("the text lacks %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "replay: "); n != 2 {
		t.Errorf("%d replay commands in the text, want one for each bug:\n%s", n, out)
	}
	all := string(written(t, text(TextOptions{Verbose: true}), s))
	for i := range d.Results {
		if r := &d.Results[i]; r.Verdict.Failed() && !strings.Contains(all, "replay: "+Replay(r)) {
			t.Errorf("-v does not show %s", r.Case)
		}
	}
	junit := string(written(t, JUnit, s))
	if n := strings.Count(junit, "replay: gpuemu"); n != 10 {
		t.Errorf("JUnit has %d replay commands, want 10", n)
	}
	if n := strings.Count(junit, "replay of the smallest: "+escape.XML(Replay(d.Summary.Groups[0].Minimal))); n != 4 {
		t.Errorf("JUnit names the smallest case %d times, want 4", n)
	}
	var sarif strings.Builder
	if err := RunSARIF(&sarif, s, SARIFOptions{Dir: "/p", Root: "/p", Config: "/p/gpuemu.toml"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"softmax fails when H is not a multiple of 4", "(the smallest of 4 cases)",
		"(the first of 6 cases)"} {
		if strings.Count(sarif.String(), want) != 1 {
			t.Errorf("SARIF lacks %q:\n%s", want, sarif.String())
		}
	}
	back, err := Read(strings.NewReader(string(written(t, JSON, s))), "r.json")
	if err != nil || !reflect.DeepEqual(back.Summary.Groups, d.Summary.Groups) || back.Summary.Failed != 10 {
		t.Errorf("JSON is read back as %+v, %v", back, err)
	}
	if merged, err := Merge([]*Document{d}); err != nil || !reflect.DeepEqual(merged.Summary.Groups[0].Minimal,
		d.Summary.Groups[0].Minimal) || len(merged.Summary.Groups) != 2 {
		t.Errorf("Merge = %+v, %v", merged, err)
	}
}
