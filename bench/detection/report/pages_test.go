package main

import (
	"strings"
	"testing"
)

// TestSyntheticPages: figures that can be counted by hand stand where they belong.
func TestSyntheticPages(t *testing.T) {
	d := synthetic(t)
	for name, tt := range map[string]struct {
		page []byte
		says []string
	}{
		"study": {d.studyPage(), []string{
			"2 base kernels, 8 mutants and real bugs: 7 compute something wrong, 1 are equivalent to their base.",
			"| **gpuemu**, up to 100 cases | 60.0 % (3 of 5) | 100 % (1 of 1) | 100 % (1 of 1) | 0 of 2 |",
			"| strict | 40.0 % (2 of 5) | 0 % (0 of 1) | 0 % (0 of 1) | 1 of 2 |",
			"| everything | 5 of 7 | 71.4 % | 35.9–91.8 % |",
			"| `h`, held out | 1 of 1 |",
			"| `value` | 3 |", "| `oob_read` | 2 |",
			"| mixed | float16 | 2 | 400 | 0 | 0 | 0 | 2.5 % | 0.75 % |",
			"| at least 24 correct kernels, 300 mutants, 25 real bugs | 2, 7, 1 | **short** |",
			"mixed and adversarial | at least 200, in 8 sets | ok |", "| no false alarm | 0 of 1600 cases | ok |",
			"| 66.7 % (4 of 6); held out alone 100 % (1 of 1) | **short** |",
			"| 2 missed, 1 differ, 0 without explanation | ok |",
			"Together: 0 of 1600 cases of correct kernels fail; with 95 % confidence fewer than 0.19 % of such cases do",
			"| bound: per element, from the oracle | default | – | – | 100 % (1 of 1) | 100 % (1 of 1) | 0 of 2 | 0.0–65.8 % |",
			"| `k2.a.1` | what of k2.a.1: line 3, `a < b` → `a <= b` | at sample 1: `B=3` | nobody draws that |",
			"| `adversarial` | – | – | – | – | 100 % (1 of 1) | 0 % (0 of 1) | 9 | 0 of 2 |",
			"There is no such mutant.",
		}},
		"baselines": {d.baselinesPage(), []string{
			"| strict | 2 of 7 | 28.6 % |", "| mask | 5 | 80.0 % | 20.0 % | 40.0 % |",
			"| strict | `k1` | 1 | `mismatch` | `sum B=1` |", "| `k2.a.1` | simple |",
			"4 of 7 wrong kernels are accepted by every one of the harnesses.",
		}},
		"device": {d.devicePage(), []string{
			"| correct kernels | 0 | 2 | 0 | 0 | 100 % |", "| mutants of known operators | 1 | 1 | 1 | 0 | 66.7 % |",
			"Of 1 that both find, the first failing case is the same for 1;",
			"On the GPU 0 of 2 correct kernels are accused: 0 of 400 cases fail",
			"| `k2.a.2` | fails at case 4: `oob_read` | passes 100 cases | guards see no read past the end |",
			"| `k1.a.2` | 100 of 100 cases not run: out of time |", "| `k2.a.2` | what of k2.a.2 | **3 of 3**: oob |",
		}},
		"corpus": {d.corpusPage(), []string{
			"| `a` | mask |  | 4 | 3 | 1 | 0 | 0 | 0 |", "| **all** |  |  | 7 | 5 | 1 | 0 | 1 | 0 |",
			"| 1: `oob_read` | 2 of 2 harnesses |",
			"| `k1.e.1` | what of k1.e.1: line 3, `a < b` → `a <= b` | 2000 | 500 | clean: memcheck |",
		}},
	} {
		text := string(tt.page)
		for _, want := range tt.says {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s does not say %q:\n%s", name, want, text)
			}
		}
	}
	for name, svg := range d.plots() {
		if len(texts(t, svg)) < 5 {
			t.Errorf("%s says hardly anything: %q", name, texts(t, svg))
		}
	}
}

func TestCell(t *testing.T) {
	tab := newTable("x", ">y")
	tab.row("a | b\nc", 3)
	if got, want := tab.String(), "| x | y |\n|---|---:|\n| a \\| b c | 3 |\n"; got != want {
		t.Errorf("table = %q, want %q", got, want)
	}
	if got, want := code("a `b`"), "`` a `b` ``"; got != want {
		t.Errorf("code = %q, want %q", got, want)
	}
}
