package daemon

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// patterns are what tests have around storages; int64 has none.
var patterns = map[string]string{"float32": "a5a5e57f", "float16": "a57f", "int32": "0102030405060708"}

func askBatch(t testing.TB, c *Client, req *wire.BatchRequest) (*wire.Batch, error) {
	t.Helper()
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return ask[wire.Batch](t, c, "/v1/batches", jsonType, text)
}

// batchOf asks for a batch and returns its cases as /v1/cases would have them, and the bytes of the shared file.
func batchOf(t testing.TB, c *Client, req *wire.BatchRequest) ([]handed, *wire.Batch, []byte) {
	t.Helper()
	req.Shared = sharedFileOf(t)
	b, err := askBatch(t, c, req)
	if err != nil || b.Error != nil {
		t.Fatalf("batch: %v %+v", err, b)
	}
	file, err := os.ReadFile(req.Shared)
	if err != nil {
		t.Fatal(err)
	}
	var list []handed
	for i, f := range b.Form {
		form := &b.Forms[f]
		seed, err := strconv.ParseUint(b.Seeds[i], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h := handed{CaseHeader: &wire.CaseHeader{Index: req.Start + i, Op: form.Op, DType: form.DType,
			Case: form.Case[0] + b.Seeds[i] + form.Case[1], Seed: wire.Seed(seed), Inputs: form.Inputs, Attrs: form.Attrs,
			Outputs: form.Outputs}}
		var storages []tensor.Named
		for k, in := range form.Inputs {
			at := form.Places[k]
			x := tensor.Named{Name: in.Storage, Tensor: mustBytes(t, file[b.Begin[i]+at[0]:b.Begin[i]+at[1]])}
			storages = append(storages, x)
		}
		var image bytes.Buffer
		if err := tensor.WriteSafetensors(&image, storages, nil); err != nil {
			t.Fatal(err)
		}
		if h.inputs, err = views(h.Inputs, image.Bytes()); err != nil {
			t.Fatal(err)
		}
		list = append(list, h)
	}
	return list, b, file
}

func mustBytes(t testing.TB, b []byte) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromBytes(dtype.Uint8, tensor.Shape{len(b)}, b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A batch has the cases of /v1/cases, whatever their layouts, and the zones around their storages have the patterns.
func TestBatchIsCases(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]*Client{"socket": f.listening(t), "in process": f.local()} {
		for _, op := range []string{"theirs", "matmul", "embedding"} {
			req := &wire.BatchRequest{Zone: 512, Fill: patterns, CasesRequest: wire.CasesRequest{Config: f.config, Op: op,
				Seed: 5, Start: 3, Count: 40}}
			want := handedOut(t, c, &req.CasesRequest)
			got, b, file := batchOf(t, c, req)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: the batch differs from the cases:\n%+v\n%+v", name, op, got[0], want[0])
			}
			if len(b.Forms) == 1 || len(b.Forms) > 40 {
				t.Errorf("%s, %s: %d forms", name, op, len(b.Forms))
			}
			end := int64(0)
			for i, k := range b.Form {
				if b.Begin[i] != end || end%blockAlign != 0 {
					t.Errorf("%s, %s: case %d begins at %d, the one before it ends at %d", name, op, i, b.Begin[i], end)
				}
				end += b.Forms[k].Size
				checkZones(t, &b.Forms[k], file[b.Begin[i]:end])
			}
			if end != int64(len(file)) {
				t.Errorf("%s, %s: the file has %d bytes, the cases %d", name, op, len(file), end)
			}
		}
	}
}

// A long answer says how long it is, and does not come in chunks.
func TestAnswerHasItsLength(t *testing.T) {
	c := newFixture(t).listening(t)
	req := &wire.BatchRequest{CasesRequest: wire.CasesRequest{Op: "matmul", Count: 40, Shared: sharedFileOf(t)}}
	resp, err := c.send(t.Context(), http.MethodPost, "/v1/batches", req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || len(body) < 10_000 || resp.ContentLength != int64(len(body)) {
		t.Errorf("%d bytes, announced as %d (%v), want at least 10000", len(body), resp.ContentLength, err)
	}
}

// checkZones looks at what lies around the storages of one case.
func checkZones(t *testing.T, form *wire.CaseForm, block []byte) {
	t.Helper()
	zone := func(dt string, b []byte) {
		pattern, err := hex.DecodeString(patterns[dt])
		if err != nil {
			t.Fatal(err)
		}
		if len(pattern) == 0 {
			pattern = []byte{0}
		}
		if len(b) < 512 || !bytes.Equal(b, bytes.Repeat(pattern, len(b)/len(pattern)+1)[:len(b)]) {
			t.Errorf("%s: around a storage of %s are %d bytes %x", form.Case[0], dt, len(b), b[:min(len(b), 16)])
		}
	}
	at := int64(0)
	for i, in := range form.Inputs {
		begin, end := form.Places[i][0], form.Places[i][1]
		stop := form.Size
		if i+1 < len(form.Places) {
			stop = form.Places[i+1][0] - 512
		}
		if begin%blockAlign != 0 {
			t.Errorf("a storage begins at %d", begin)
		}
		zone(in.DType, block[at:begin])
		zone(in.DType, block[end:stop])
		at = stop
	}
}

// Large storages are not gathered, and max_bytes ends a batch as it ends a stream of cases.
func TestBatchOfLargeCases(t *testing.T) {
	f := newFixture(t)
	req := &wire.BatchRequest{Zone: 256, Fill: patterns, CasesRequest: wire.CasesRequest{Op: "relu", Count: 40, Seed: 3,
		DTypes: []string{"float32"}, Dims: map[string][]int{"B": {1, 64}, "S": {17}, "H": {100}}, MaxBytes: 1 << 20}}
	got, _, file := batchOf(t, f.local(), req)
	if len(file) < 1<<20 || len(file) > 3<<19 || len(got) == 40 {
		t.Errorf("%d cases with %d bytes", len(got), len(file))
	}
	req.Shared, req.MaxBytes, req.Count = "", 0, len(got)
	if want := handedOut(t, f.local(), &req.CasesRequest); !reflect.DeepEqual(got, want) {
		t.Error("the batch differs from the cases")
	}
}

// Wrong requests for batches are refused.
func TestBatchRefuses(t *testing.T) {
	f := newFixture(t)
	good := func() *wire.BatchRequest {
		return &wire.BatchRequest{Zone: 256, CasesRequest: wire.CasesRequest{Op: "relu", Count: 1, Shared: sharedFileOf(t)}}
	}
	for name, change := range map[string]func(*wire.BatchRequest){
		"no file":      func(r *wire.BatchRequest) { r.Shared = "" },
		"no such file": func(r *wire.BatchRequest) { r.Shared = "/nowhere/to/be/found" },
		"odd zone":     func(r *wire.BatchRequest) { r.Zone = 100 },
		"negative":     func(r *wire.BatchRequest) { r.Zone = -256 },
		"large zone":   func(r *wire.BatchRequest) { r.Zone = maxZone + 256 },
		"odd fill":     func(r *wire.BatchRequest) { r.Fill = map[string]string{"float32": "a5a5a5"} },
		"no fill":      func(r *wire.BatchRequest) { r.Fill = map[string]string{"float32": ""} },
		"no hex":       func(r *wire.BatchRequest) { r.Fill = map[string]string{"float32": "wxyz"} },
		"no type":      func(r *wire.BatchRequest) { r.Fill = map[string]string{"float31": "a5a5a5a5"} },
		"many":         func(r *wire.BatchRequest) { r.Count = maxBatch + 1 },
		"none":         func(r *wire.BatchRequest) { r.Count = 0 },
		"unknown op":   func(r *wire.BatchRequest) { r.Op = "rleu" },
	} {
		req := good()
		change(req)
		if b, err := askBatch(t, f.local(), req); err == nil {
			t.Errorf("%s: %d cases", name, len(b.Form))
		}
	}
	if _, err := askBatch(t, f.local(), good()); err != nil {
		t.Error(err)
	}
}

// outputsOf is a request to judge what a client computed on cases, which compute does.
func outputsOf(
	t testing.TB, f *fixture, cases []handed, compute func(i int, x *tensor.Tensor) *tensor.Tensor,
) *wire.JudgeRequest {
	t.Helper()
	req := &wire.JudgeRequest{Config: f.config, Shared: sharedFileOf(t)}
	var file []byte
	for i, h := range cases {
		begin, end := seedIn(h.Case)
		y := compute(i, h.inputs[0].Tensor)
		req.Forms = append(req.Forms, wire.OutputForm{Case: []string{h.Case[:begin], h.Case[end:]},
			Outputs: []wire.OutputSpec{{Name: "output", DType: y.DType.String(), Shape: int64s(y.Shape)}}})
		file = append(file, make([]byte, pad(len(file), outputAlign)-len(file))...)
		req.Form, req.Seeds = append(req.Form, i), append(req.Seeds, h.Case[begin:end])
		req.Begin, req.TimeNS = append(req.Begin, int64(len(file))), append(req.TimeNS, int64(i+1))
		file = append(file, y.Bytes()...)
	}
	if err := os.WriteFile(req.Shared, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return req
}

func askJudge(t testing.TB, c *Client, req *wire.JudgeRequest) ([]*wire.Submitted, error) {
	t.Helper()
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := ask[wire.JudgeReply](t, c, "/v1/judgements", jsonType, text)
	if err != nil {
		return nil, err
	}
	return reply.Results, nil
}

// A batch is judged as its cases are one by one: the verdicts are the same, and all of them are stored.
func TestJudgements(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	cases := handedOut(t, c, &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 5, Count: 90})
	compute := func(i int, x *tensor.Tensor) *tensor.Tensor {
		y := relu(x)
		if i%7 == 3 && len(y.Data) > 0 {
			y.Data[len(y.Data)-1] ^= 0x40 // the exponent of the last element
		}
		return y
	}
	req := outputsOf(t, f, cases, compute)
	got, err := askJudge(t, c, req)
	if err != nil || len(got) != len(cases) {
		t.Fatalf("%d results: %v", len(got), err)
	}
	stored, err := f.store.List(t.Context(), store.Filter{})
	if err != nil || len(stored) != len(cases) {
		t.Fatalf("%d results are stored: %v", len(stored), err)
	}
	slices.SortFunc(stored, func(a, b verdict.Result) int { return a.Index - b.Index })
	failed := 0
	for i, h := range cases {
		var one submissions
		one.add(t, &wire.SubmitHeader{Config: f.config, Case: h.Case, TimeNS: int64(i + 1), Store: "none"},
			output(compute(i, h.inputs[0].Tensor)))
		want := resultOf(t, submitAll(t, c, one.body(t))[0])
		r := resultOf(t, *got[i])
		if r.Verdict == verdict.Fail {
			failed++
		}
		for _, x := range []*verdict.Result{want, r, &stored[i]} { // what depends on the clock, and on the store
			x.Time, x.Duration, x.ReferenceTime, x.Index = want.Time, 0, 0, 0
		}
		if !reflect.DeepEqual(r, want) || !reflect.DeepEqual(&stored[i], want) {
			t.Errorf("case %d:\n%+v\n%+v\n%+v", i, r, stored[i], want)
		}
	}
	if failed < 5 {
		t.Errorf("%d of %d cases failed", failed, len(cases))
	}
	req.Brief, req.Store = true, "none"
	brief, err := askJudge(t, c, req)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range brief {
		if (b == nil) != passed(*got[i]) || b != nil && resultOf(t, *b).Reason != resultOf(t, *got[i]).Reason {
			t.Errorf("case %d: %+v in brief, %s", i, b, got[i].Result)
		}
	}
	if list, err := f.store.List(t.Context(), store.Filter{}); err != nil || len(list) != len(cases) {
		t.Errorf("%d results are stored: %v", len(list), err)
	}
}

// What is wrong with one case is told of that case, what is wrong with the columns is an error of all.
func TestJudgementsRefuse(t *testing.T) {
	f := newFixture(t)
	cases := handedOut(t, f.local(), &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 5, Count: 3})
	right := func(_ int, x *tensor.Tensor) *tensor.Tensor { return relu(x) }
	for name, change := range map[string]func(*wire.JudgeRequest){
		"nothing":       func(r *wire.JudgeRequest) { r.Form = nil },
		"seeds":         func(r *wire.JudgeRequest) { r.Seeds = r.Seeds[:2] },
		"beginnings":    func(r *wire.JudgeRequest) { r.Begin = r.Begin[:2] },
		"times":         func(r *wire.JudgeRequest) { r.TimeNS = r.TimeNS[:2] },
		"unknown form":  func(r *wire.JudgeRequest) { r.Form[1] = 3 },
		"negative form": func(r *wire.JudgeRequest) { r.Form[1] = -1 },
		"overlap":       func(r *wire.JudgeRequest) { r.Begin[1] = r.Begin[0] },
		"not aligned":   func(r *wire.JudgeRequest) { r.Begin[2] += 4 },
		"before":        func(r *wire.JudgeRequest) { r.Begin[0] = -64 },
		"far":           func(r *wire.JudgeRequest) { r.Begin[2] = 1 << 62 },
		"behind":        func(r *wire.JudgeRequest) { r.Begin[2] += 1 << 30 },
		"file":          func(r *wire.JudgeRequest) { r.Shared = "" },
		"store":         func(r *wire.JudgeRequest) { r.Store = "some" },
		"text":          func(r *wire.JudgeRequest) { r.Forms[1].Case = r.Forms[1].Case[:1] },
		"no case":       func(r *wire.JudgeRequest) { r.Forms[1].Case = []string{"relu seed=", ""} },
		"dtype":         func(r *wire.JudgeRequest) { r.Forms[1].Outputs[0].DType = "float31" },
		"shape":         func(r *wire.JudgeRequest) { r.Forms[1].Outputs[0].Shape = []int64{-1} },
		"huge":          func(r *wire.JudgeRequest) { r.Forms[1].Outputs[0].Shape = []int64{1 << 40} },
	} {
		req := outputsOf(t, f, cases, right)
		change(req)
		if _, err := askJudge(t, f.local(), req); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	req := outputsOf(t, f, cases, right)
	req.Seeds[0], req.Forms[1].Outputs = "12x", nil
	got, err := askJudge(t, f.local(), req)
	if err != nil || got[0].Error == nil || got[1].Error == nil || got[2].Error != nil || !passed(*got[2]) {
		t.Errorf("results are %+v: %v", got, err)
	}
	if list, err := f.store.List(t.Context(), store.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("%d results are stored, want 1: %v", len(list), err)
	}
	f.held = f.room()
	if _, err := askJudge(t, f.local(), outputsOf(t, f, cases, right)); diag.CodeOf(err) != Busy {
		t.Errorf("with no memory left: %v", err)
	}
	f.held = 0
}
