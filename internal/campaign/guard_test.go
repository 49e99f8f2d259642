package campaign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/verdict"
)

const inPlacePy = `
def relu(inputs):
    x = inputs["input"]
    x[x < 0] = 0
    return x
`

// A candidate that writes to its inputs fails unless the configuration says that it may.
func TestWritingToInputs(t *testing.T) {
	const text = "\n[[ops]]\nname = \"relu\"\ncandidate = \"inplace.py:relu\"\n"
	for _, c := range []struct {
		more string
		want verdict.Verdict
	}{{"", verdict.Fail}, {"invariants = { inputs_unchanged = false }\n", verdict.Pass}} {
		tr := newTrial(t, head+text+c.more)
		if err := os.WriteFile(filepath.Join(tr.project.Config.Dir, "inplace.py"), []byte(inPlacePy), 0o600); err != nil {
			t.Fatal(err)
		}
		_, results := tr.run(KindTest, Options{Quick: true})
		i := slices.IndexFunc(results, func(r verdict.Result) bool { return r.Outputs[0].Elements > 10 })
		r := results[i]
		if r.Verdict != c.want || c.want == verdict.Fail && !strings.Contains(r.Message, "wrote to input") {
			t.Errorf("with %q: %s %q, want %s", c.more, r.Verdict, r.Message, c.want)
		}
		if c.want == verdict.Fail && (r.Reason != verdict.InputModified || len(r.Findings) != 1 ||
			r.Findings[0].Name != "input") {
			t.Errorf("with %q: reason %s, findings %+v", c.more, r.Reason, r.Findings)
		}
	}
}

// Sizes that are never drawn are said: a run that leaves them out must not look as if it had them.
func TestCappedSizesAreSaid(t *testing.T) {
	tr := newTrial(t, head+`
[[ops]]
name = "mine"
candidate = "builtin:relu"
reference = "builtin:relu"
[ops.schema]
dims = [{ name = "B", candidates = [1] }, { name = "S", candidates = [4, 4000000] }, { name = "H", candidates = [4] }]
inputs = [{ name = "input", dims = ["B", "S", "H"] }]
output = { name = "output", dims = ["B", "S", "H"] }
`)
	sum, _ := tr.run(KindTest, Options{Quick: true})
	said := len(sum.Health) == 1 && sum.Health[0].Check == HealthCapped
	if !said || !strings.Contains(sum.Health[0].Message, "S = 4000000") {
		t.Errorf("health: %+v", sum.Health)
	}
}

// TestWriteToldOnce: where the emulator has said in which line an input is written, that it was changed is not said
// again; without a place it is.
func TestWriteToldOnce(t *testing.T) {
	placed := verdict.Finding{Kind: string(verdict.InputModified), Sentence: "k.cu:4", Site: &verdict.Site{Line: 4}}
	for _, tt := range []struct {
		findings []verdict.Finding
		guarded  bool
		want     int
	}{{[]verdict.Finding{placed}, true, 1}, {nil, true, 1}, {[]verdict.Finding{placed}, false, 0}} {
		res := &verdict.Result{Verdict: verdict.Pass}
		s := &subject{guardInputs: tt.guarded}
		s.conclude(res, observed{findings: tt.findings, modified: []string{"x"}}, true)
		if len(res.Findings) != tt.want || tt.want == 1 && res.Reason != verdict.InputModified {
			t.Errorf("guarded %v: findings %v, reason %q, want %d", tt.guarded, res.Findings, res.Reason, tt.want)
		}
	}
}
