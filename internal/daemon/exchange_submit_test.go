package daemon

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// exchange is a case of the op theirs (relu) with its right output.
type exchange struct {
	*fixture
	client *Client
	handed
	right *tensor.Tensor
}

func newExchange(t *testing.T) *exchange {
	t.Helper()
	f := newFixture(t)
	x := &exchange{fixture: f, client: f.local()}
	for _, h := range handedOut(t, x.client, &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 5, Count: 20}) {
		if n := h.inputs[0].Tensor.Elems(); n > 8 { // with fewer, zeros may be right
			x.handed, x.right = h, relu(h.inputs[0].Tensor)
			return x
		}
	}
	t.Fatal("all cases are small")
	return nil
}

// zeros is a wrong output.
func (x *exchange) zeros() *tensor.Tensor { return tensor.New(x.right.DType, x.right.Shape) }

// one sends one part and returns its result or error.
func (x *exchange) one(t *testing.T, h wire.SubmitHeader, tensors ...tensor.Named) (*verdict.Result, *wire.Error) {
	t.Helper()
	var out submissions
	if h.Config = x.config; h.Case == "" && h.Op == "" {
		h.Case = x.Case
	}
	out.add(t, &h, tensors...)
	list := submitAll(t, x.client, out.body(t))
	if len(list) != 1 {
		t.Fatalf("%d results, want 1", len(list))
	}
	return resultOf(t, list[0]), list[0].Error
}

func resultOf(t *testing.T, s wire.Submitted) *verdict.Result {
	t.Helper()
	if s.Result == nil {
		return nil
	}
	var r verdict.Result
	if err := json.Unmarshal(s.Result, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// stored counts the results in the store.
func (x *exchange) stored(t *testing.T) int {
	t.Helper()
	list, err := x.store.List(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func output(v *tensor.Tensor) tensor.Named { return tensor.Named{Name: "outputs/output", Tensor: v} }

// What a candidate did instead of replying is blamed as if a worker of ours had seen it.
func TestSubmitFailure(t *testing.T) {
	x := newExchange(t)
	for reason, want := range map[verdict.Reason]verdict.Verdict{
		verdict.Raised: verdict.Error, verdict.Crashed: verdict.Error, verdict.TimedOut: verdict.Error,
		verdict.BadReply: verdict.Error, verdict.WrongOutputs: verdict.Error, verdict.WrongDType: verdict.Error,
		verdict.MissingPackage: verdict.NotRun, verdict.Unsupported: verdict.NotRun, verdict.WorkerLost: verdict.NotRun,
	} {
		trace := strings.Repeat("ä", maxTrace) + "ValueError: shape"
		r, e := x.one(t, wire.SubmitHeader{Failure: &wire.CaseFailure{Reason: string(reason), Message: "it broke",
			Hint: "mend it", Trace: trace}, TimeNS: 7})
		if e != nil || r.Verdict != want || r.Reason != reason || r.Message != "it broke" || r.Hint != "mend it" ||
			!strings.HasSuffix(r.Stderr, "ValueError: shape") || len(r.Stderr) > maxTrace+8 || r.Candidate != "client" ||
			r.CandidateTime != 7 || strings.ContainsRune(r.Stderr, '\uFFFD') {
			t.Errorf("%s: %+v, %+v, want %s", reason, r, e, want)
		}
	}
	for name, h := range map[string]wire.SubmitHeader{
		"unknown":    {Failure: &wire.CaseFailure{Reason: "bored"}},
		"no failure": {Failure: &wire.CaseFailure{Reason: "mismatch"}},
		"not run, yet": {Failure: &wire.CaseFailure{Reason: "unsupported"},
			Findings: []wire.CaseFinding{{Kind: "overrun", Sentence: "x"}}},
		"nothing": {},
	} {
		if _, e := x.one(t, h); e == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	_, e := x.one(t, wire.SubmitHeader{Failure: &wire.CaseFailure{Reason: "raised"}}, output(x.right))
	if e == nil || e.Code != string(campaign.BadOptions) {
		t.Errorf("failure and output: %+v", e)
	}
	r, e := x.one(t, wire.SubmitHeader{Failure: &wire.CaseFailure{Reason: "raised", Message: "died"},
		Findings: []wire.CaseFinding{{Kind: "overrun", Name: "output", Sentence: "wrote behind output"}}})
	if e != nil || r.Verdict != verdict.Error || r.Reason != verdict.Raised || len(r.Findings) != 1 ||
		r.Message != "died; wrote behind output" {
		t.Errorf("failure with a finding: %+v, %+v", r, e)
	}
}

// A finding makes a case fail, is the reason before wrong elements, and the message has both.
func TestSubmitFindings(t *testing.T) {
	x := newExchange(t)
	for _, kind := range verdict.FindingReasons() {
		finding := []wire.CaseFinding{{Kind: string(kind), Name: "input", Sentence: "something at [3]"}}
		r, e := x.one(t, wire.SubmitHeader{Findings: finding}, output(x.right))
		if e != nil || r.Verdict != verdict.Fail || r.Reason != kind || r.Message != "something at [3]" || r.Hint == "" ||
			len(r.Findings) != 1 || r.Findings[0].Name != "input" || r.Outputs[0].Mismatched != 0 {
			t.Errorf("%s: %+v, %+v", kind, r, e)
		}
		r, e = x.one(t, wire.SubmitHeader{Findings: finding}, output(x.zeros()))
		if e != nil || r.Reason != kind || !strings.HasPrefix(r.Message, "something at [3]; output \"output\": ") ||
			r.Outputs[0].Mismatched == 0 {
			t.Errorf("%s and wrong: %+v, %+v", kind, r, e)
		}
	}
	several := []wire.CaseFinding{{Kind: "nondeterministic", Sentence: "c"}, {Kind: "input_modified", Sentence: "b"},
		{Kind: "overrun", Sentence: "a"}}
	r, e := x.one(t, wire.SubmitHeader{Findings: several}, output(x.right))
	if e != nil || r.Reason != verdict.Overrun || r.Message != "a; b; c" || len(r.Findings) != 3 {
		t.Errorf("several: %+v, %+v", r, e)
	}
	short := tensor.New(x.right.DType, tensor.MustShape(1))
	r, e = x.one(t, wire.SubmitHeader{Findings: several[2:]}, output(short))
	if e != nil || r.Verdict != verdict.Error || r.Reason != verdict.WrongShape || !strings.HasSuffix(r.Message, "; a") {
		t.Errorf("wrong shape: %+v, %+v", r, e)
	}
	for name, f := range map[string]wire.CaseFinding{
		"unknown": {Kind: "odd", Sentence: "x"}, "mismatch": {Kind: "mismatch", Sentence: "x"}, "mute": {Kind: "overrun"},
	} {
		if _, e := x.one(t, wire.SubmitHeader{Findings: []wire.CaseFinding{f}}, output(x.right)); e == nil ||
			e.Code != string(campaign.BadOptions) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	many := make([]wire.CaseFinding, 1000)
	if _, e := x.one(t, wire.SubmitHeader{Findings: many}, output(x.right)); e == nil {
		t.Error("a thousand findings were accepted")
	}
}

// A second execution is compared bit for bit by the engine.
func TestSubmitAgain(t *testing.T) {
	x := newExchange(t)
	again := func(v *tensor.Tensor) tensor.Named { return tensor.Named{Name: "again/output", Tensor: v} }
	r, e := x.one(t, wire.SubmitHeader{}, output(x.right), again(x.right))
	if e != nil || r.Verdict != verdict.Pass || r.Findings != nil {
		t.Errorf("the same: %+v, %+v", r, e)
	}
	other := tensor.New(x.right.DType, x.right.Shape)
	values := x.right.Float64s()
	values[5] = math.Copysign(values[5]+1, 1)
	other.SetFloat64s(values)
	r, e = x.one(t, wire.SubmitHeader{}, output(x.right), again(other))
	if e != nil || r.Verdict != verdict.Fail || r.Reason != verdict.Nondeterministic || len(r.Findings) != 1 ||
		r.Findings[0].Name != "output" || !strings.Contains(r.Message, "1 of ") || !strings.Contains(r.Message, "first at") {
		t.Errorf("another: %+v, %+v", r, e)
	}
	short := tensor.New(x.right.DType, tensor.MustShape(1))
	r, e = x.one(t, wire.SubmitHeader{}, output(x.right), again(short))
	if e != nil || r.Reason != verdict.Nondeterministic {
		t.Errorf("another shape: %+v, %+v", r, e)
	}
	strange := tensor.Named{Name: "again/other", Tensor: x.right}
	if _, e = x.one(t, wire.SubmitHeader{}, output(x.right), strange); e == nil {
		t.Error("an output of the second execution alone was accepted")
	}
}

// Reference values of the client are used instead of the op's, also for an op that nobody knows.
func TestSubmitExpected(t *testing.T) {
	x := newExchange(t)
	want := func(v *tensor.Tensor) tensor.Named { return tensor.Named{Name: "expected/output", Tensor: v} }
	r, e := x.one(t, wire.SubmitHeader{}, output(x.zeros()), want(x.zeros()))
	if e != nil || r.Verdict != verdict.Pass || r.Reference != "client" || r.Outputs[0].Regime != "fixed" {
		t.Errorf("own values: %+v, %+v", r, e)
	}
	if r, e = x.one(t, wire.SubmitHeader{}, output(x.zeros()), want(x.right)); e != nil || r.Verdict != verdict.Fail {
		t.Errorf("other values: %+v, %+v", r, e)
	}
	wide := &wire.CaseTolerance{ATol: 1e6, RTol: 0.5}
	r, e = x.one(t, wire.SubmitHeader{Tolerance: wide}, output(x.zeros()), want(x.right))
	if e != nil || r.Reason != verdict.Vacuous || r.Verdict != verdict.Undecided || r.Outputs[0].ATol != 1e6 ||
		r.Outputs[0].RTol != 0.5 {
		t.Errorf("wide: %+v, %+v", r, e)
	}
	r, e = x.one(t, wire.SubmitHeader{Tolerance: wide}, output(x.zeros()))
	if e != nil || r.Reason != verdict.Vacuous || r.Reference != "builtin:relu" || r.Outputs[0].Regime != "fixed" {
		t.Errorf("wide, the op's reference: %+v, %+v", r, e)
	}
	for _, bad := range []wire.CaseTolerance{{ATol: -1}, {RTol: -1}, {ATol: 1e301}} {
		if _, e = x.one(t, wire.SubmitHeader{Tolerance: &bad}, output(x.right)); e == nil {
			t.Errorf("tolerance %+v was accepted", bad)
		}
	}
	in := tensor.Named{Name: "inputs/q", Tensor: tensor.New(dtype.Float32, tensor.MustShape(3, 5))}
	out := tensor.New(dtype.Float16, tensor.MustShape(7))
	exact := tensor.New(dtype.Float64, tensor.MustShape(7))
	r, e = x.one(t, wire.SubmitHeader{Op: "unheard_of"}, in, output(out), want(exact))
	if e != nil || r.Verdict != verdict.Pass || r.DType != "float16" || r.Op != "unheard_of" {
		t.Errorf("unknown op: %+v, %+v", r, e)
	}
	exact.SetFloat64s([]float64{0, 0, 1, 0, 0, 0, 0})
	if r, e = x.one(t, wire.SubmitHeader{Op: "unheard_of"}, in, output(out), want(exact)); e != nil ||
		r.Verdict != verdict.Fail || r.Outputs[0].Mismatched != 1 || r.Inputs == "" {
		t.Errorf("unknown op, wrong: %+v, %+v", r, e)
	}
	again := handedOut(t, x.client, &wire.CasesRequest{Case: r.Case, Config: x.config})
	if len(again) != 1 || !reflect.DeepEqual(again[0].inputs, []tensor.Named{{Name: "q", Tensor: in.Tensor}}) {
		t.Errorf("the stored case was handed out as %+v", again)
	}
	replay, err := x.client.Reproduce(t.Context(), &wire.ReproduceRequest{Config: x.config, Seed: seedOf(0)})
	if err != nil || replay.Executable || replay.Case != r.Case || replay.Stored == nil {
		t.Errorf("Reproduce of an unknown op = %+v, %v", replay, err)
	}
	_, err = askCases(t, x.client, &wire.CasesRequest{Case: strings.ReplaceAll(r.Case, "stored", "normal")})
	wantCode(t, err, campaign.UnknownOp)
	_, e = x.one(t, wire.SubmitHeader{Op: "unheard_of"}, in, output(out))
	if e == nil || e.Code != string(campaign.UnknownOp) {
		t.Errorf("unknown op without expected values: %+v", e)
	}
}

// What is stored is what was asked for.
func TestSubmitStore(t *testing.T) {
	x := newExchange(t)
	for _, c := range []struct {
		store  string
		right  bool
		stored int
	}{{"", true, 1}, {"all", true, 1}, {"failures", true, 0}, {"failures", false, 1}, {"none", true, 0},
		{"none", false, 0}} {
		before := x.stored(t)
		out := x.right
		if !c.right {
			out = x.zeros()
		}
		r, e := x.one(t, wire.SubmitHeader{Store: c.store}, output(out))
		if e != nil || (r.Verdict == verdict.Pass) != c.right || x.stored(t)-before != c.stored {
			t.Errorf("store %q, right %v: %+v, %+v, %d stored, want %d", c.store, c.right, r, e, x.stored(t)-before, c.stored)
		}
	}
	if _, e := x.one(t, wire.SubmitHeader{Store: "some"}, output(x.right)); e == nil || e.Code != string(BadRequest) {
		t.Errorf("store some: %+v", e)
	}
}

// One bad part does not spoil the others; a body that cannot be divided into parts spoils all.
func TestSubmissions(t *testing.T) {
	x := newExchange(t)
	var out submissions
	out.add(t, &wire.SubmitHeader{Config: x.config, Case: x.Case}, output(x.right))
	out.raw([]byte("no JSON"), nil)
	out.add(t, &wire.SubmitHeader{Case: x.Case}, output(x.zeros()))
	out.raw([]byte(`{"case":"`+x.Case+`"}`), []byte("no image"))
	out.add(t, &wire.SubmitHeader{Case: "nonsense"}, output(x.right))
	out.add(t, &wire.SubmitHeader{Op: "theirs", Case: strings.Replace(x.Case, "theirs", "relu", 1)}, output(x.right))
	out.add(t, &wire.SubmitHeader{Config: "relative", Case: x.Case}, output(x.right))
	out.add(t, &wire.SubmitHeader{}, tensor.Named{Name: "inputs/input", Tensor: x.inputs[0].Tensor}, output(x.right))
	before := x.stored(t)
	list := submitAll(t, x.client, out.body(t))
	want := []string{"pass", string(BadRequest), "fail", string(tensor.SafetensorsHeader), "opspec-case-syntax",
		string(campaign.BadOptions), string(BadRequest), "pass"}
	var indexes []int
	for i, r := range list {
		got := ""
		if res := resultOf(t, r); res != nil {
			got = res.Verdict.String()
			indexes = append(indexes, res.Index)
		} else {
			got = r.Error.Code
		}
		if got != want[i] {
			t.Errorf("part %d: %s, want %s", i, got, want[i])
		}
	}
	if len(list) != len(want) || x.stored(t)-before != 3 || indexes[1] != indexes[0]+1 || indexes[2] != indexes[1]+1 {
		t.Errorf("%d results, %d stored with indexes %v", len(list), x.stored(t)-before, indexes)
	}
	whole := out.body(t)
	before = x.stored(t)
	for name, c := range map[string]struct {
		body []byte
		code diag.Code
	}{
		"cut":       {whole[:len(whole)-6], BadRequest},
		"no end":    {whole[:len(whole)-4], BadRequest},
		"first":     {append([]byte("\x02\x00\x00\x00xy\x00\x00\x00\x00\x00\x00\x00\x00"), whole...), BadRequest},
		"too large": {append(out.parts[0][:len(out.parts[0]):len(out.parts[0])], 0xff, 0xff, 0xff, 0xff), TooLarge},
	} {
		if _, err := trySubmit(t, x.client, c.body); diag.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if list, err := trySubmit(t, x.client, make([]byte, 4)); err != nil || len(list) != 0 {
		t.Errorf("no parts: %+v, %v", list, err)
	}
	if x.stored(t) != before || x.held != 0 {
		t.Errorf("%d stored of requests that failed, %d bytes held", x.stored(t)-before, x.held)
	}
}

// A brief answer leaves out what is known of passed cases; the store has it.
func TestSubmissionsBrief(t *testing.T) {
	x := newExchange(t)
	var out submissions
	out.add(t, &wire.SubmitHeader{Config: x.config, Case: x.Case, Brief: true}, output(x.right))
	out.add(t, &wire.SubmitHeader{Case: x.Case}, output(x.zeros()))
	out.add(t, &wire.SubmitHeader{Case: x.Case}, output(x.right))
	list := submitAll(t, x.client, out.body(t))
	want := `{"op":"theirs","seed":"` + strconv.FormatUint(uint64(x.Seed), 10) + `","verdict":"pass"}`
	if string(list[0].Result) != want || string(list[2].Result) != want {
		t.Errorf("passed results are\n%s\n%s\nwant\n%s", list[0].Result, list[2].Result, want)
	}
	if r := resultOf(t, list[1]); r.Verdict != verdict.Fail || len(r.Outputs) != 1 || r.Message == "" {
		t.Errorf("the failed result is %s", list[1].Result)
	}
	kept, err := x.engine.Store.List(t.Context(), store.Filter{Limit: 3})
	if err != nil || len(kept) != 3 {
		t.Fatalf("%d results are stored, %v", len(kept), err)
	}
	for _, r := range kept {
		if len(r.Outputs) != 1 || r.Case != x.Case {
			t.Errorf("stored is %+v", r)
		}
	}
}
