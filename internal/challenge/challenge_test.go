package challenge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/receipt"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// Short names of the forms.
type (
	signed = receipt.Challenge
	result = receipt.ChallengeOutput
	kernel = receipt.ChallengeKernel
)

// code is some digest of some code.
const code = "6f2b1e9d1c8a4b5f0e7d3c2b1a09f8e7d6c5b4a3928170615243342516071829"

// reluRequest has small and large cases.
func reluRequest() Request { return Request{Code: code, Op: "relu", DType: "float32", Count: 6} }

// filled is a challenge whose outputs are those of the catalogue's own reference, rounded once.
func filled(t *testing.T, req Request) *signed {
	t.Helper()
	c, err := Make(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c, req.Code, func(_ int, out *tensor.Tensor) {})
	return c
}

// fill records outputs after change had its way with the first of each case.
func fill(t *testing.T, c *signed, code string, change func(i int, out *tensor.Tensor)) {
	t.Helper()
	run, err := runner.New(runner.Spec{Target: "builtin:" + c.Op})
	if err != nil {
		t.Fatal(err)
	}
	err = Fill(c, code, func(i int) ([]tensor.Named, error) {
		made, err := opspec.ParseCase(c.Cases[i].Case)
		if err != nil {
			return nil, err
		}
		inputs, err := Inputs(c, code, i)
		if err != nil {
			return nil, err
		}
		reply, err := run.Run(context.Background(), &runner.Call{Op: c.Op, DType: made.DType, Inputs: inputs,
			Attrs: made.AttrMap()})
		if err != nil {
			return nil, err
		}
		change(i, reply.Outputs[0].Tensor)
		return reply.Outputs, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func recheck(t *testing.T, c *signed, opt Options) *Report {
	t.Helper()
	rep, err := Recheck(context.Background(), c, code, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// copied is c by way of its JSON form, so that a test may change it.
func copied(t *testing.T, c *signed) *signed {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out := new(signed)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSeed has known answers, computed with sha256sum: the derivation is frozen.
func TestSeed(t *testing.T) {
	for _, tt := range []struct {
		code, nonce, op, dtype string
		want                   uint64
	}{
		{strings.Repeat("0", 64), "", "softmax", "float32", 0x9252aff30048724c},
		{code, "n1", "relu", "float16", 0xb1de351202576ee8},
	} {
		if got := Seed(tt.code, tt.nonce, tt.op, tt.dtype); got != tt.want {
			t.Errorf("Seed(%q, %q, %q, %q) = %#x, want %#x", tt.code, tt.nonce, tt.op, tt.dtype, got, tt.want)
		}
	}
}

// TestSeedParts: each part of a challenge changes its cases.
func TestSeedParts(t *testing.T) {
	base := Seed(code, "n", "relu", "float32")
	for name, other := range map[string]uint64{
		"code":  Seed(strings.Repeat("0", 64), "n", "relu", "float32"),
		"nonce": Seed(code, "m", "relu", "float32"),
		"op":    Seed(code, "n", "gelu", "float32"),
		"dtype": Seed(code, "n", "relu", "float16"),
	} {
		if other == base {
			t.Errorf("another %s gives the same seed", name)
		}
	}
}

func TestRecheckAccepts(t *testing.T) {
	for _, req := range []Request{
		reluRequest(),
		{Code: code, Nonce: "pr-17", Op: "softmax", DType: "float16", Count: 4},
		{Code: code, Op: "layer_norm", DType: "float32", Count: 3, Values: "normal",
			Attributes: map[string]string{"eps": "0.001"}},
		{Code: code, Op: "argmax", DType: "float32", Count: 4, Values: "ties"},
	} {
		t.Run(req.Op, func(t *testing.T) {
			c := filled(t, req)
			rep := recheck(t, copied(t, c), Options{Nonce: req.Nonce})
			if len(rep.Faults) > 0 || rep.Recorded == 0 || len(rep.Cases) != req.Count {
				t.Errorf("Recheck = %d of %d cases recorded, faults %+v", rep.Recorded, len(rep.Cases), rep.Faults)
			}
			size := 0
			for i := range c.Cases {
				for _, o := range c.Cases[i].Outputs {
					size += len(o.Data)
				}
			}
			if size == 0 || size > MaxData {
				t.Errorf("%d bytes of outputs are kept, want 1 to %d", size, MaxData)
			}
		})
	}
}

// TestRecheckRefuses: each defect alone is found, by its own reason.
func TestRecheckRefuses(t *testing.T) {
	good := filled(t, reluRequest())
	kept := slices.IndexFunc(good.Cases, func(c receipt.ChallengeCase) bool { return len(c.Outputs["output"].Data) > 0 })
	bare := slices.IndexFunc(good.Cases, func(c receipt.ChallengeCase) bool { return len(c.Outputs["output"].Data) == 0 })
	if kept < 0 || bare < 0 {
		t.Fatalf("the challenge has no case with data, or none without: %d, %d", kept, bare)
	}
	output := func(c *signed, i int, change func(*result)) {
		o := c.Cases[i].Outputs["output"]
		o.Data = slices.Clone(o.Data)
		change(&o)
		c.Cases[i].Outputs["output"] = o
	}
	for _, tt := range []struct {
		name   string
		change func(*signed)
		want   Reason
	}{
		{"unknown op", func(c *signed) { c.Op = "rely" }, Malformed},
		{"op by its alias", func(c *signed) { c.Op = "ReLU" }, Malformed},
		{"unknown dtype", func(c *signed) { c.DType = "float33" }, Malformed},
		{"short dtype", func(c *signed) { c.DType = "f32" }, Malformed},
		{"unknown values", func(c *signed) { c.Values = "nice" }, Malformed},
		{"unknown attribute", func(c *signed) { c.Attributes = map[string]string{"x": "1"} }, Malformed},
		{"no cases", func(c *signed) { c.Count, c.Cases = 0, nil }, Malformed},
		{"a million cases", func(c *signed) { c.Count = 1000000 }, Malformed},
		{"nonce of two lines", func(c *signed) { c.Nonce = "a\nb" }, Malformed},
		{"nonce with a blank", func(c *signed) { c.Nonce = "a b" }, Malformed},
		{"chosen seed", func(c *signed) { c.Seed = "1" }, OtherSeed},
		{"other nonce", func(c *signed) { c.Nonce = "x" }, OtherSeed},
		{"seed of another spelling", func(c *signed) { c.Seed = "0" + c.Seed }, OtherSeed},
		{"case left out", func(c *signed) { c.Cases = slices.Delete(c.Cases, 2, 3) }, OtherCases},
		{"last case left out", func(c *signed) { c.Cases = c.Cases[:5] }, OtherCases},
		{"one case twice", func(c *signed) { c.Cases[2] = c.Cases[1] }, OtherCases},
		{"other case", func(c *signed) { c.Cases[1].Case = c.Cases[0].Case }, OtherCases},
		{"other inputs", func(c *signed) { c.Cases[1].Inputs = c.Cases[0].Inputs }, OtherInputs},
		{"no outputs", func(c *signed) { c.Cases[kept].Outputs = nil }, OutputMissing},
		{"output of another name", func(c *signed) {
			c.Cases[kept].Outputs = map[string]receipt.ChallengeOutput{"y": c.Cases[kept].Outputs["output"]}
		}, OutputMissing},
		{"data left out", func(c *signed) { output(c, kept, func(o *result) { o.Data = nil }) }, OutputMissing},
		{"data cut short", func(c *signed) { output(c, kept, func(o *result) { o.Data = o.Data[4:] }) }, OutputMissing},
		{"data that is not kept", func(c *signed) { output(c, bare, func(o *result) { o.Data = []byte{1} }) }, OutputForm},
		{"other dtype", func(c *signed) { output(c, kept, func(o *result) { o.DType = "int32" }) }, OutputForm},
		{"other shape", func(c *signed) {
			output(c, kept, func(o *result) { o.Shape = o.Shape[1:] })
		}, OutputForm},
		{"digest of nothing", func(c *signed) { output(c, bare, func(o *result) { o.SHA256 = "" }) }, OutputForm},
		{"edited data", func(c *signed) { output(c, kept, func(o *result) { o.Data[3] ^= 0x40 }) }, OutputForm},
		{"edited data, digest made again", func(c *signed) {
			output(c, kept, func(o *result) {
				o.Data[3] ^= 0x40
				o.SHA256 = digest(o.Data)
			})
		}, OutputWrong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := copied(t, good)
			tt.change(c)
			rep := recheck(t, c, Options{})
			if len(rep.Faults) == 0 || rep.Faults[0].Reason != tt.want || !rep.Refused() {
				t.Errorf("Recheck finds %+v, want %s", rep.Faults, tt.want)
			}
			for _, f := range rep.Faults {
				if f.Reason != tt.want {
					t.Errorf("Recheck finds %s, too", f.Reason)
				}
			}
		})
	}
}

// TestRecheckFindsBug: outputs of a kernel that is wrong in the last element of a row only.
func TestRecheckFindsBug(t *testing.T) {
	c, err := Make(context.Background(), Request{Code: code, Op: "softmax", DType: "float32", Count: 8})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c, code, func(_ int, out *tensor.Tensor) {
		v := out.Float64s()
		if len(v) == 0 {
			return
		}
		v[len(v)-1] *= 1.001
		out.SetFloat64s(v)
	})
	rep := recheck(t, c, Options{})
	if !rep.Refused() || rep.Faults[0].Reason != OutputWrong || !strings.Contains(rep.Faults[0].Message, "1 of ") {
		t.Errorf("Recheck finds %+v, want %s", rep.Faults, OutputWrong)
	}
}

// TestRecheckChosenNonce: with a nonce that nobody gave out a signer could choose the cases.
func TestRecheckChosenNonce(t *testing.T) {
	req := reluRequest()
	req.Nonce = "ground"
	c := filled(t, req)
	if rep := recheck(t, c, Options{}); len(rep.Faults) != 1 || rep.Faults[0].Reason != OtherSeed || !rep.Refused() {
		t.Errorf("Recheck finds %+v, want %s alone", rep.Faults, OtherSeed)
	}
	if rep := recheck(t, c, Options{Nonce: "ground"}); len(rep.Faults) > 0 {
		t.Errorf("with that nonce given out: Recheck finds %+v", rep.Faults)
	}
}

// TestRecheckUndecided: where the reference cannot tell, wrong outputs look as good as right ones. Many of such cases
// are no success.
func TestRecheckUndecided(t *testing.T) {
	c := filled(t, Request{Code: code, Op: "cross_entropy", DType: "float32", Count: 6, Values: "adversarial"})
	rep := recheck(t, c, Options{})
	undecided := 0
	for _, k := range rep.Cases {
		if k.Recorded == verdict.Undecided {
			undecided++
		}
	}
	if undecided == 0 || rep.Recorded == 0 {
		t.Fatalf("%d cases undecided, %d right: the test needs some of both", undecided, rep.Recorded)
	}
	if len(rep.Faults) != 1 || rep.Faults[0].Reason != Unchecked || rep.Refused() ||
		!strings.Contains(rep.Faults[0].Message, fmt.Sprintf("%d of 6 cases are undecided", undecided)) {
		t.Errorf("Recheck finds %+v, want %s alone", rep.Faults, Unchecked)
	}
}

// TestRecheckLongText: what a signer wrote does not flood a log.
func TestRecheckLongText(t *testing.T) {
	c := filled(t, reluRequest())
	c.Cases[0].Case = strings.Repeat("ü", 1<<20)
	if rep := recheck(t, c, Options{}); len(rep.Faults) != 1 || len(rep.Faults[0].Message) > 2*maxMessage {
		t.Errorf("Recheck finds %d faults, the first of %d bytes", len(rep.Faults), len(rep.Faults[0].Message))
	}
}

// TestMakeOneSpelling: a digest has one spelling, or one code would have many seeds to choose from.
func TestMakeOneSpelling(t *testing.T) {
	for _, other := range []string{strings.ToUpper(code), code[:62], code + "00", ""} {
		_, err := Make(context.Background(), Request{Code: other, Op: "relu", DType: "float32", Count: 1})
		if diag.CodeOf(err) != BadChallenge {
			t.Errorf("Make for the code %q: %v, want %s", other, err, BadChallenge)
		}
	}
}

// TestRecheckOtherCode: a challenge made for one state of the code says nothing about another.
func TestRecheckOtherCode(t *testing.T) {
	rep, err := Recheck(context.Background(), filled(t, reluRequest()), strings.Repeat("a", 64), Options{})
	if err != nil || len(rep.Faults) != 1 || rep.Faults[0].Reason != OtherSeed {
		t.Errorf("Recheck = %+v, %v, want %s", rep.Faults, err, OtherSeed)
	}
}

// TestRecheckNothingFits: where no output fits, nothing was checked, which is no success.
func TestRecheckNothingFits(t *testing.T) {
	for n := range 64 { // a nonce whose only case is a large one
		req := reluRequest()
		req.Count, req.Nonce = 1, strconv.Itoa(n)
		c := filled(t, req)
		if len(c.Cases[0].Outputs["output"].Data) > 0 {
			continue
		}
		rep := recheck(t, c, Options{Nonce: req.Nonce})
		if len(rep.Faults) != 1 || rep.Faults[0].Reason != Unchecked || rep.Refused() {
			t.Errorf("Recheck finds %+v, want %s alone", rep.Faults, Unchecked)
		}
		return
	}
	t.Fatal("no case is too large to be kept")
}

func TestFillRefuses(t *testing.T) {
	c, err := Make(context.Background(), reluRequest())
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.New(dtype.Float32, tensor.Shape{1})
	for name, out := range map[string][]tensor.Named{
		"none":  nil,
		"two":   {{Name: "output", Tensor: one}, {Name: "more", Tensor: one}},
		"shape": {{Name: "output", Tensor: one}},
	} {
		if err := Fill(c, code, func(int) ([]tensor.Named, error) { return out, nil }); err == nil {
			t.Errorf("%s: Fill takes it", name)
		}
	}
}

// TestOtherIndexType: indexes of the other permitted type are recorded and checked as what they are.
func TestOtherIndexType(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Int32, dtype.Int64, dtype.Int16} {
		req := Request{Code: code, Op: "argmax", DType: "float32", Count: 3}
		c, err := Make(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		run, err := runner.New(runner.Spec{Target: "builtin:argmax"})
		if err != nil {
			t.Fatal(err)
		}
		err = Fill(c, code, func(i int) ([]tensor.Named, error) {
			inputs, err := Inputs(c, code, i)
			if err != nil {
				return nil, err
			}
			made, err := opspec.ParseCase(c.Cases[i].Case)
			if err != nil {
				return nil, err
			}
			reply, err := run.Run(context.Background(), &runner.Call{Op: c.Op, DType: made.DType, Inputs: inputs,
				Attrs: made.AttrMap()})
			if err != nil {
				return nil, err
			}
			out := reply.Outputs[0].Tensor
			return []tensor.Named{{Name: "output", Tensor: tensor.FromFloat64s(d, out.Shape, out.Float64s())}}, nil
		})
		if d == dtype.Int16 {
			if err == nil {
				t.Error("Fill takes int16 indexes")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if rep := recheck(t, copied(t, c), Options{}); len(rep.Faults) > 0 || rep.Recorded != 3 {
			t.Errorf("%s: %+v", d, rep)
		}
	}
}

// reluPTX is a kernel for any number of elements; what stands at OP makes it right or wrong.
const reluPTX = `.version 8.0
.target sm_80
.address_size 64
.visible .entry relu(.param .u64 x, .param .u64 y, .param .u32 n)
{
	.reg .pred %p1;
	.reg .b32 %r<5>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r2, 64, %r3;
	setp.CMP.s32 %p1, %r4, %r1;
	@%p1 bra done;
	mul.wide.s32 %rd3, %r4, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4];
	OP.f32 %f2, %f1, 0f00000000;
	st.global.f32 [%rd5], %f2;
done:
	ret;
}
`

func TestRecheckEmulates(t *testing.T) {
	req := reluRequest()
	req.Count = 3
	good := filled(t, req)
	good.Kernel = &receipt.ChallengeKernel{PTX: "kernels/relu.ptx", Entry: "relu", Grid: []string{"cdiv(input.numel, 64)"},
		Block: []string{"64"}, Args: []string{"input", "output", "input.numel"}}
	for _, tt := range []struct {
		name   string
		ptx    string
		change func(*kernel)
		want   Reason
	}{
		{"right", strings.NewReplacer("CMP", "ge", "OP", "max.NaN").Replace(reluPTX), nil, ""},
		{"wrong values", strings.NewReplacer("CMP", "ge", "OP", "add").Replace(reluPTX), nil, KernelWrong},
		{"past the end", strings.NewReplacer("CMP", "gt", "OP", "max.NaN").Replace(reluPTX), nil, KernelWrong},
		{"no such entry", strings.NewReplacer("CMP", "ge", "OP", "max.NaN").Replace(reluPTX),
			func(k *kernel) { k.Entry = "gelu" }, Malformed},
		{"no grid", "", func(k *kernel) { k.Grid = nil }, Malformed},
		{"endless text", "", func(k *kernel) { k.Args[0] = strings.Repeat("(", 5000) }, Malformed},
		{"not PTX", "what?", nil, Unchecked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := copied(t, good)
			if tt.change != nil {
				tt.change(c.Kernel)
			}
			rep := recheck(t, c, Options{PTX: func(path string) ([]byte, error) {
				if path != "kernels/relu.ptx" {
					t.Errorf("%q is asked for", path)
				}
				return []byte(tt.ptx), nil
			}})
			if tt.want == "" {
				if len(rep.Faults) > 0 || rep.Emulated != 3 {
					t.Errorf("Recheck = %d emulated, faults %+v", rep.Emulated, rep.Faults)
				}
				return
			}
			if len(rep.Faults) == 0 || rep.Faults[0].Reason != tt.want || rep.Emulated == 3 {
				t.Errorf("Recheck finds %+v, want %s", rep.Faults, tt.want)
			}
		})
	}
	gone := Options{PTX: func(string) ([]byte, error) { return nil, errors.New("it is not in the tree") }}
	if rep := recheck(t, good, gone); len(rep.Faults) != 1 || rep.Faults[0].Reason != KernelMissing {
		t.Errorf("Recheck finds %+v, want %s", rep.Faults, KernelMissing)
	}
	elsewhere := Options{PTX: func(string) ([]byte, error) { return nil, ErrNotHere }}
	if rep := recheck(t, good, elsewhere); len(rep.Faults) != 1 || rep.Faults[0].Reason != Unchecked || rep.Recorded == 0 {
		t.Errorf("Recheck finds %+v, want %s", rep.Faults, Unchecked)
	}
	if rep := recheck(t, good, Options{Nonce: "n1"}); len(rep.Faults) != 1 || rep.Faults[0].Reason != OtherSeed {
		t.Errorf("Recheck finds %+v, want %s", rep.Faults, OtherSeed)
	}
	if rep := recheck(t, good, Options{}); len(rep.Faults) > 0 || rep.Emulated > 0 {
		t.Errorf("without PTX: Recheck = %d emulated, faults %+v", rep.Emulated, rep.Faults)
	}
}

// TestReasons: each has a sentence, and none stands there twice.
func TestReasons(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r.Reason] || r.Doc == "" || !strings.HasPrefix(string(r.Reason), "challenge_") {
			t.Errorf("reason %q is there twice, or has no sentence", r.Reason)
		}
		seen[r.Reason] = true
	}
}

// FuzzRecheck: whatever a receipt says, a second look ends, and accepts nothing but what it computed itself.
func FuzzRecheck(f *testing.F) {
	for _, text := range []string{
		`{"op":"relu","dtype":"float32","values":"mixed","seed":"1","count":1,"nonce":"","cases":[]}`,
		`{"op":"relu","dtype":"float32","count":2,"cases":[{"index":0},{"index":1,"outputs":{"output":{}}}],
		  "kernel":{"ptx":"k","grid":["1"],"block":["x.numel"],"args":["input","output"]}}`,
	} {
		f.Add(text)
	}
	for _, op := range oracle.Ops() { // attributes are the signer's: none may make it run away
		c := receipt.Challenge{Op: op.Name, DType: op.Schema.AllowedDTypes()[0].String(), Count: 1,
			Attributes: map[string]string{}, Cases: []receipt.ChallengeCase{{}}}
		for name, value := range op.Schema.DefaultAttrs() {
			c.Attributes[name] = fmt.Sprint(value)
		}
		c.Kernel = &kernel{PTX: "k", Grid: []string{"1"}, Block: []string{"64"}, Args: []string{"64"}}
		for i := range op.Schema.Inputs {
			c.Kernel.Args = append(c.Kernel.Args, op.Schema.Inputs[i].Name)
		}
		for i := range op.Schema.Outputs {
			c.Kernel.Args = append(c.Kernel.Args, op.Schema.Outputs[i].Name)
		}
		b, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c receipt.Challenge
		if json.Unmarshal([]byte(text), &c) != nil || c.Count > 2 || len(c.Cases) > 2 {
			t.Skip("not a challenge, or a long one")
		}
		if p, err := newPlan(request(&c, code)); err == nil {
			c.Seed = strconv.FormatUint(p.seed, 10) // get past the first checks
			for i := range c.Cases {
				if made, inputs, err := p.make(i); err == nil {
					c.Cases[i].Index, c.Cases[i].Case, c.Cases[i].Inputs = i, made.String(), InputsDigest(made, inputs)
				}
			}
		}
		rep, err := Recheck(context.Background(), &c, code, Options{PTX: func(string) ([]byte, error) {
			return []byte(strings.NewReplacer("CMP", "ge", "OP", "max.NaN").Replace(reluPTX)), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Faults) == 0 && rep.Recorded+rep.Emulated == 0 {
			t.Errorf("nothing was checked, and nothing is said: %s", text)
		}
	})
}
