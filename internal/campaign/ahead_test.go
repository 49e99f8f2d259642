package campaign

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/config"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// timesTwo is a project whose op is judged by a reference of its own.
const timesTwo = head + `
[[ops]]
name = "mine"
execution_mode = "client_side"
reference = "mine.py:times"
input_names = ["x"]
`

const timesPy = "import numpy as np\ndef times(inputs, factor=2):\n    return inputs['x'].astype(np.float64) * factor\n"

// handOut hands out cases and waits until their expected values are there. Those of the seed are small: they are ready
// together (maxReady), whatever is computed first.
func (tr *trial) handOut(op string, n int) []handedCase {
	tr.t.Helper()
	batch, err := tr.HandOut(tr.t.Context(), tr.project, HandOut{Op: op,
		Options: Options{Seed: seed(6), Shapes: "regular"}})
	if err != nil {
		tr.t.Fatal(err)
	}
	defer batch.Close(false)
	var out []handedCase
	for i := range n {
		c, inputs, err := batch.Case(tr.t.Context(), i)
		if err != nil {
			tr.t.Fatal(err)
		}
		out = append(out, handedCase{c, inputs})
	}
	tr.ahead.ended.Wait()
	for _, c := range out {
		e := tr.ahead.waiting[tr.keyOf(op, c.String())]
		if e == nil {
			tr.t.Fatalf("case %s does not wait", c)
		}
		if p := e.Value.(*prospect); p.state != begun {
			tr.t.Fatalf("case %s is not computed, %d bytes are ready", c, tr.ahead.ready)
		}
	}
	return out
}

type handedCase struct {
	opspec.Case
	inputs map[string]*tensor.Tensor
}

// scaled is the output of a candidate that multiplies.
func (h handedCase) scaled(factor float64) []tensor.Named {
	in := h.inputs["x"]
	values := in.Float64s()
	for i := range values {
		values[i] *= factor
	}
	return []tensor.Named{{Name: "output", Tensor: tensor.FromFloat64s(in.DType, in.Shape, values)}}
}

func (tr *trial) submit(sub Submission) *verdict.Result {
	tr.t.Helper()
	res, err := tr.Submit(tr.t.Context(), tr.project, sub)
	if err != nil {
		tr.t.Fatal(err)
	}
	return res
}

// A result is the same whether its expected values were computed ahead or not.
func TestAheadDecidesNothing(t *testing.T) {
	tr := newTrial(t, timesTwo)
	tr.write("mine.py", timesPy)
	for i := range 3 {
		for factor, want := range map[float64]verdict.Verdict{2: verdict.Pass, 3: verdict.Fail} {
			c := tr.handOut("mine", 3)[i]
			sub := Submission{Op: "mine", Case: c.String(), Outputs: c.scaled(factor)}
			key := tr.keyOf("mine", c.String())
			tr.ahead.take(key)
			missed := tr.submit(sub)
			tr.handOut("mine", 3)
			tr.ahead.waiting[key].Value.(*prospect).took = time.Hour // seen in the result: it was used
			hit := tr.submit(sub)
			if hit.ReferenceTime != time.Hour || missed.ReferenceTime == time.Hour {
				t.Fatalf("case %d: reference times %v and %v", i, hit.ReferenceTime, missed.ReferenceTime)
			}
			if hit.Verdict != want {
				t.Errorf("case %d, factor %v: %s %s", i, factor, hit.Verdict, hit.Message)
			}
			for _, r := range []*verdict.Result{hit, missed} {
				r.Time, r.Duration, r.ReferenceTime, r.Index = time.Time{}, 0, 0, 0
			}
			if !reflect.DeepEqual(hit, missed) {
				t.Errorf("case %d, factor %v:\n%+v\n%+v", i, factor, hit, missed)
			}
			if _, ok := tr.ahead.waiting[key]; ok {
				t.Error("a case waits after its submission")
			}
		}
	}
}

// keyOf is the key of a case as a submission has it.
func (tr *trial) keyOf(op, text string) caseKey {
	tr.t.Helper()
	s, release, err := tr.session(tr.t.Context(), tr.project, op)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer release()
	return s.caseKey(text)
}

// What was computed for other code, another configuration or another case is never used.
func TestAheadNeverStale(t *testing.T) {
	for name, change := range map[string]func(*trial){
		"reference": func(tr *trial) { tr.write("mine.py", strings.Replace(timesPy, "=2", "=3", 1)) },
		"import":    func(tr *trial) { tr.write("other.py", strings.Replace(timesPy, "=2", "=3", 1)) },
		"kwargs":    func(tr *trial) { tr.reload(timesTwo + "kwargs = { factor = 3 }\n") },
		"target": func(tr *trial) {
			tr.write("mine3.py", strings.Replace(timesPy, "=2", "=3", 1))
			tr.reload(strings.Replace(timesTwo, "mine.py", "mine3.py", 1))
		},
	} {
		tr := newTrial(t, timesTwo)
		tr.write("mine.py", "from other import times\n")
		tr.write("other.py", timesPy)
		cases := tr.handOut("mine", 2)
		if r := tr.submit(Submission{Op: "mine", Case: cases[0].String(), Outputs: cases[0].scaled(2)}); r.Verdict !=
			verdict.Pass {
			t.Errorf("%s: before: %s %s", name, r.Verdict, r.Message)
		}
		change(tr)
		for factor, want := range map[float64]verdict.Verdict{2: verdict.Fail, 3: verdict.Pass} {
			r := tr.submit(Submission{Op: "mine", Case: cases[1].String(), Outputs: cases[1].scaled(factor)})
			if r.Verdict != want {
				t.Errorf("%s: factor %v after: %s %s, want %s", name, factor, r.Verdict, r.Message, want)
			}
		}
	}
}

// The interpreter counts where there is something to interpret, and only then.
func TestAheadOfAnotherInterpreter(t *testing.T) {
	tr := newTrial(t, timesTwo+"[[ops]]\nname = \"relu\"\nexecution_mode = \"client_side\"\n")
	tr.write("mine.py", timesPy)
	mine, relu := tr.handOut("mine", 1)[0].String(), tr.handOut("relu", 1)[0].String()
	for _, c := range []struct {
		python string
		hit    bool
	}{{"/nowhere/python", false}, {tr.Python, true}} {
		tr.project.Python = c.python
		if hit := tr.ahead.waiting[tr.keyOf("mine", mine)] != nil; hit != c.hit {
			t.Errorf("interpreter %s: found %v, want %v", c.python, hit, c.hit)
		}
		if tr.ahead.waiting[tr.keyOf("relu", relu)] == nil {
			t.Errorf("interpreter %s: a case that needs none is not found", c.python)
		}
	}
}

// Callers with different environments share no processes, and no values that were computed in them.
func TestAheadOfAnotherEnvironment(t *testing.T) {
	tr := newTrial(t, timesTwo+"[[ops]]\nname = \"relu\"\nexecution_mode = \"client_side\"\n")
	tr.write("mine.py", timesPy)
	tr.project.Env = []string{"A=1", "PATH=" + os.Getenv("PATH")}
	mine, relu := tr.handOut("mine", 1)[0].String(), tr.handOut("relu", 1)[0].String()
	for _, c := range []struct {
		env []string
		hit bool
	}{{nil, false}, {[]string{"A=2", tr.project.Env[1]}, false}, {tr.project.Env, true}} {
		tr.project.Env = c.env
		if hit := tr.ahead.waiting[tr.keyOf("mine", mine)] != nil; hit != c.hit {
			t.Errorf("environment %q: found %v, want %v", c.env, hit, c.hit)
		}
		if tr.ahead.waiting[tr.keyOf("relu", relu)] == nil {
			t.Errorf("environment %q: a case that runs nothing is not found", c.env)
		}
	}
}

// reload changes the configuration.
func (tr *trial) reload(text string) {
	tr.t.Helper()
	path := filepath.Join(tr.project.Config.Dir, "gpuemu.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tr.t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.project.Config = cfg
}

// fakeProspects puts cases that nobody computes.
func fakeProspects(a *ahead, l *lease, n int, bytes int64) {
	for i := range n {
		p := &prospect{key: caseKey{text: strconv.Itoa(i)}, lease: l, bytes: bytes, done: make(chan struct{})}
		a.put(p)
	}
}

// Bytes, cases and time are bounded; the session is given back when the last case has gone.
func TestAheadIsBounded(t *testing.T) {
	released := 0
	newLease := func() *lease {
		return &lease{session: &session{subject: freeSubject(nil, "x"), executor: &executor{}}, users: 1,
			ctx: t.Context(), cancel: func() {}, release: func() { released++ }}
	}
	for _, c := range []struct {
		n     int
		bytes int64
		want  int
	}{{10, 1, 10}, {20, maxAhead / 16, 16}, {maxAheadCases + 5, 0, maxAheadCases}, {3, maxAhead/4 + 1, 0}} {
		a := &ahead{workers: 1 << 20} // none is started
		l := newLease()
		released = 0
		fakeProspects(a, l, c.n, c.bytes)
		l.leave()
		if a.order.Len() != c.want || len(a.waiting) != c.want || a.bytes > maxAhead {
			t.Errorf("%d of %d bytes: %d wait, want %d, with %d bytes", c.n, c.bytes, a.order.Len(), c.want, a.bytes)
		}
		if c.want > 0 {
			last := caseKey{text: strconv.Itoa(c.n - 1)}
			if _, ok := a.waiting[last]; !ok || released != 0 {
				t.Errorf("the newest case is gone, or its session was given back %d times", released)
			}
			a.put(&prospect{key: last, lease: l, done: make(chan struct{})}) // handed out again
			if len(a.waiting) != c.want || a.order.Len() != c.want {
				t.Errorf("handed out twice: %d wait, want %d", len(a.waiting), c.want)
			}
		}
		for e := a.order.Front(); e != nil; e = e.Next() {
			e.Value.(*prospect).handed = time.Now().Add(-aheadIdle)
		}
		a.sweep()
		if a.order.Len() != 0 || len(a.waiting) != 0 || a.bytes != 0 || released != 1 || a.expire != nil {
			t.Errorf("after a minute %d wait with %d bytes, given back %d times", a.order.Len(), a.bytes, released)
		}
	}
	a := &ahead{workers: 1 << 20}
	l, other := newLease(), newLease()
	fakeProspects(a, other, 3, 1)
	fakeProspects(a, l, 2, 1) // takes the first two keys over
	a.drop(l)
	if len(a.waiting) != 1 || a.waiting[caseKey{text: "2"}] == nil {
		t.Errorf("dropping a batch left %d cases", len(a.waiting))
	}
	if p := a.take(caseKey{text: "2"}); p == nil || a.take(caseKey{text: "2"}) != nil || a.bytes != 0 {
		t.Error("a case was not there once")
	} else if _, ok := p.ready(t.Context()); ok {
		t.Error("what was never computed is ready")
	}
	a.close()
	fakeProspects(a, l, 1, 1)
	if len(a.waiting) != 0 {
		t.Error("a case waits after the end")
	}
}

// Of many cases some are computed ahead; the others wait for room, or for their outputs. All get their verdict.
func TestAheadHasEnough(t *testing.T) {
	tr := newTrial(t, head)
	batch, err := tr.HandOut(t.Context(), tr.project, HandOut{Op: "softmax", Options: Options{Seed: seed(4),
		DTypes: []dtype.DType{dtype.Float32}, Dims: map[string][]int{"B": {4}, "S": {16}, "H": {257}}}})
	if err != nil {
		t.Fatal(err)
	}
	const values = 4 * 16 * 257 * 16 // bytes of values and bounds
	var cases []handedCase
	for i := range 3 * maxReady / values {
		c, inputs, err := batch.Case(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, handedCase{c, inputs})
	}
	batch.Close(false)
	tr.ahead.ended.Wait()
	if r := tr.ahead.ready; r < maxReady || r > maxReady+maxAheadWorkers*values || tr.ahead.queue.Len() == 0 {
		t.Errorf("%d bytes are ready and %d cases wait for room, want at least %d and some", r, tr.ahead.queue.Len(),
			maxReady)
	}
	s, _ := catalogueSubject(nil, "softmax")
	for _, c := range cases {
		wants, err := s.evaluate(c.Case, c.inputs)
		if err != nil {
			t.Fatal(err)
		}
		if r := tr.submit(Submission{Op: "softmax", Case: c.String(), Outputs: rounded(wants)}); r.Verdict != verdict.Pass &&
			r.Verdict != verdict.Undecided {
			t.Errorf("%s: %s %s", c, r.Verdict, r.Message)
		}
	}
	tr.ahead.ended.Wait()
	if tr.ahead.ready != 0 || tr.ahead.bytes != 0 || tr.ahead.queue.Len() != 0 {
		t.Errorf("in the end %d bytes are ready, %d wait in %d cases", tr.ahead.ready, tr.ahead.bytes, tr.ahead.queue.Len())
	}
}

// A batch that is given up leaves nothing behind, and its session is closed with the others.
func TestGivenUpBatch(t *testing.T) {
	tr := newTrial(t, head)
	batch, err := tr.HandOut(t.Context(), tr.project, HandOut{Op: "softmax", Options: Options{Seed: seed(4)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, _, err := batch.Case(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	batch.Close(true)
	tr.ahead.ended.Wait()
	if len(tr.ahead.waiting) != 0 || tr.ahead.bytes != 0 {
		t.Errorf("%d cases wait with %d bytes", len(tr.ahead.waiting), tr.ahead.bytes)
	}
	tr.sessions.mu.Lock()
	defer tr.sessions.mu.Unlock()
	for key, s := range tr.sessions.open {
		if s.users != 0 {
			t.Errorf("session %q has %d users", key, s.users)
		}
	}
}

// A client that writes to its inputs may, where the configuration says so.
func TestInputsMayBeModified(t *testing.T) {
	const text = "\n[[ops]]\nname = \"relu\"\nexecution_mode = \"client_side\"\n"
	for more, want := range map[string]verdict.Verdict{"": verdict.Fail,
		"invariants = { inputs_unchanged = false }\n": verdict.Pass} {
		tr := newTrial(t, head+text+more)
		c := tr.handOut("relu", 1)[0]
		s, _ := catalogueSubject(nil, "relu")
		wants, err := s.evaluate(c.Case, c.inputs)
		if err != nil {
			t.Fatal(err)
		}
		r := tr.submit(Submission{Op: "relu", Case: c.String(), Outputs: rounded(wants),
			Findings: []verdict.Finding{{Kind: "input_modified", Name: "input", Sentence: "input changed"}}})
		if r.Verdict != want || (len(r.Findings) == 1) != (want == verdict.Fail) {
			t.Errorf("with %q: %s %s %+v", more, r.Verdict, r.Reason, r.Findings)
		}
	}
}
