package daemon

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// onePartBody returns a body of one part.
func onePartBody(t *testing.T, header any, tensors ...tensor.Named) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writePart(&b, header, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ask posts a body and decodes the reply.
func ask[Reply any](t testing.TB, c *Client, path, mediaType string, body []byte) (*Reply, error) {
	t.Helper()
	resp, err := c.sendBody(t.Context(), http.MethodPost, path, mediaType, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := new(Reply)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out, nil
}

func floats(name string, d dtype.DType, x ...float64) tensor.Named {
	return tensor.Named{Name: name, Tensor: tensor.FromFloat64s(d, tensor.Shape{len(x)}, x)}
}

func gradientResult(t *testing.T, c *Client, h any, tensors ...tensor.Named) (*verdict.Result, error) {
	t.Helper()
	reply, err := ask[wire.SubmitReply](t, c, "/v1/gradients", submitType, onePartBody(t, h, tensors...))
	if err != nil {
		return nil, err
	}
	res := new(verdict.Result)
	if err := json.Unmarshal(reply.Result, res); err != nil {
		t.Fatal(err)
	}
	return res, nil
}

func TestGradients(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	// mul: the gradients are the products with the other input. Inputs of rank 1 stand for the catalogue's rank 3.
	a, b := floats("inputs/a", dtype.Float32, 1, 2, 3), floats("inputs/b", dtype.Float32, 5, 6, 7)
	g := floats("grad_output", dtype.Float32, 1, -1, 2)
	h := wire.GradientsHeader{Op: "mul"}
	for _, tt := range []struct {
		name string
		grad tensor.Named
		want verdict.Verdict
	}{
		{"right", floats("grads/a", dtype.Float32, 5, -6, 14), verdict.Pass},
		{"wider", floats("grads/a", dtype.Float64, 5, -6, 14), verdict.Pass},
		{"one off", floats("grads/b", dtype.Float32, 1, -2, 6.00001), verdict.Fail},
		{"the other input", floats("grads/b", dtype.Float32, 5, -6, 14), verdict.Fail},
		{"wrong sign", floats("grads/a", dtype.Float32, 5, 6, 14), verdict.Fail},
		{"wrong shape", floats("grads/a", dtype.Float32, 5, -6), verdict.Error},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := gradientResult(t, c, h, a, b, g, tt.grad)
			if err != nil {
				t.Fatal(err)
			}
			if res.Verdict != tt.want || res.Reference != "builtin:mul gradient" || res.Candidate != "client" {
				t.Errorf("verdict %v by %q of %q (%s), want %v", res.Verdict, res.Reference, res.Candidate, res.Message, tt.want)
			}
			if name := res.Outputs[0].Name; "grads/"+strings.TrimPrefix(name, "grad/") != tt.grad.Name {
				t.Errorf("output %q for %q", name, tt.grad.Name)
			}
		})
	}
	stored := 0
	err := f.store.Find(t.Context(), store.Filter{}, func(r *store.Found) error {
		stored++
		if !r.Result.Verdict.Failed() || r.Result.Inputs == "" {
			t.Errorf("stored: %v with inputs %q", r.Result.Verdict, r.Result.Inputs)
		}
		return nil
	})
	if err != nil || stored != 4 {
		t.Errorf("%d results stored (%v), want the four that fail", stored, err)
	}
	header := wire.GradientsHeader{Op: "mul", Tolerance: &wire.CaseTolerance{ATol: 20}} // zeros are within 20, too
	loose, err := gradientResult(t, c, header, a, b, g, floats("grads/a", dtype.Float32, 5, 6, 14))
	if err != nil || loose.Reason != verdict.Vacuous || loose.Outputs[0].Regime != "fixed" {
		t.Errorf("with a tolerance of 20: %+v, %v", loose, err)
	}
}

func TestGradientsNumeric(t *testing.T) {
	c := newFixture(t).listening(t)
	x := floats("inputs/input", dtype.Float32, 1, 4, 2, 4.5)
	res, err := gradientResult(t, c, wire.GradientsHeader{Op: "max"}, x,
		tensor.Named{Name: "grad_output", Tensor: tensor.FromFloat64s(dtype.Float32, tensor.Shape{}, []float64{3})},
		floats("grads/input", dtype.Float32, 0, 0, 0, 3))
	if err != nil {
		t.Fatal(err)
	}
	if res.Verdict != verdict.Pass || res.Reference != "builtin:max gradient by central differences" {
		t.Errorf("%v by %q: %s", res.Verdict, res.Reference, res.Message)
	}
}

func TestGradientsRefused(t *testing.T) {
	c := newFixture(t).listening(t)
	x, g := floats("inputs/input", dtype.Float32, 1, 2), floats("grad_output", dtype.Float32, 1, 1)
	grad := floats("grads/input", dtype.Float32, 1, 1)
	big := tensor.Named{Name: "inputs/input", Tensor: tensor.New(dtype.Float32, tensor.Shape{1, 1, 5000})}
	for _, tt := range []struct {
		name, code, says string
		header           any
		tensors          []tensor.Named
	}{
		{"no gradients", "campaign-bad-options", "no gradient to judge", wire.GradientsHeader{Op: "relu"},
			[]tensor.Named{x, g}},
		{"no gradient of the output", "gradient-output-mismatch", "no gradient of an output",
			wire.GradientsHeader{Op: "relu"}, []tensor.Named{x, grad}},
		{"another shape", "gradient-output-mismatch", "has shape [3], want [2]", wire.GradientsHeader{Op: "relu"},
			[]tensor.Named{x, grad, floats("grad_output", dtype.Float32, 1, 1, 1)}},
		{"indexes", "gradient-none", "has no gradient", wire.GradientsHeader{Op: "argmax"}, []tensor.Named{x, g, grad}},
		{"too many elements", "gradient-too-large", "at most 4096 elements", wire.GradientsHeader{Op: "max"},
			[]tensor.Named{big, grad, {Name: "grad_output", Tensor: tensor.New(dtype.Float32, tensor.Shape{1, 1})}}},
		{"unknown op", "campaign-unknown-op", "", wire.GradientsHeader{Op: "nope"}, []tensor.Named{x, g, grad}},
		{"another name", "daemon-bad-request", `has a tensor "output"`, wire.GradientsHeader{Op: "relu"},
			[]tensor.Named{floats("output", dtype.Float32, 1)}},
		{"no header", "daemon-bad-request", "is not what", "text", []tensor.Named{x}},
		{"bad tolerance", "compare-bad-tolerance", "atol is -1",
			wire.GradientsHeader{Op: "relu", Tolerance: &wire.CaseTolerance{ATol: -1}}, []tensor.Named{x, g, grad}},
	} {
		_, err := gradientResult(t, c, tt.header, tt.tensors...)
		if string(diag.CodeOf(err)) != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %s: %s", tt.name, err, tt.code, tt.says)
		}
	}
	if _, err := ask[wire.SubmitReply](t, c, "/v1/gradients", submitType, []byte{9, 0}); diag.CodeOf(err) != BadRequest {
		t.Errorf("a body that ends early: %v", err)
	}
}

func TestCompareTensors(t *testing.T) {
	c := newFixture(t).listening(t)
	ints := func(name string, x ...float64) tensor.Named { return floats(name, dtype.Int64, x...) }
	for _, tt := range []struct {
		name    string
		header  wire.CompareHeader
		tensors []tensor.Named
		verdict string
	}{
		{"equal", wire.CompareHeader{}, []tensor.Named{floats("got/x", dtype.Float32, 1), floats("want/x", dtype.Float32, 1)},
			"pass"},
		{"wider reference", wire.CompareHeader{},
			[]tensor.Named{floats("got/x", dtype.Float32, 1.000001), floats("want/x", dtype.Float64, 1)}, "pass"},
		{"off", wire.CompareHeader{}, []tensor.Named{floats("got/x", dtype.Float32, 1.001),
			floats("want/x", dtype.Float32, 1)}, "fail"},
		{"off, by the tolerance of another dtype", wire.CompareHeader{DType: "float16"},
			[]tensor.Named{floats("got/x", dtype.Float32, 1.001), floats("want/x", dtype.Float32, 1)}, "pass"},
		{"off, by a tolerance", wire.CompareHeader{Tolerance: &wire.CaseTolerance{RTol: 0.01}},
			[]tensor.Named{floats("got/x", dtype.Float32, 1.001), floats("want/x", dtype.Float32, 1)}, "pass"},
		{"integers", wire.CompareHeader{}, []tensor.Named{ints("got/x", 3), ints("want/x", 4)}, "fail"},
		{"shape", wire.CompareHeader{},
			[]tensor.Named{floats("got/x", dtype.Float32, 1), floats("want/x", dtype.Float32, 1, 2)}, "error"},
		{"the second of two", wire.CompareHeader{Name: "mine"}, []tensor.Named{floats("got/x", dtype.Float32, 1),
			floats("got/y", dtype.Float32, 1), floats("want/y", dtype.Float32, 2), floats("want/x", dtype.Float32, 1)}, "fail"},
	} {
		reply, err := ask[wire.CompareReply](t, c, "/v1/compare", submitType, onePartBody(t, tt.header, tt.tensors...))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if reply.Verdict != tt.verdict || reply.Passed != (tt.verdict == "pass") || len(reply.Outputs) != len(tt.tensors)/2 {
			t.Errorf("%s: %+v, want %s", tt.name, reply, tt.verdict)
		}
		if tt.header.Name != "" && !strings.HasPrefix(reply.Message, "mine: output \"y\"") {
			t.Errorf("%s: message %q", tt.name, reply.Message)
		}
	}
	for _, tensors := range [][]tensor.Named{nil, {floats("got/x", dtype.Float32, 1)},
		{floats("got/x", dtype.Float32, 1), floats("want/x", dtype.Float32, 1), floats("want/y", dtype.Float32, 1)}} {
		_, err := ask[wire.CompareReply](t, c, "/v1/compare", submitType, onePartBody(t, wire.CompareHeader{}, tensors...))
		if string(diag.CodeOf(err)) != "campaign-bad-options" || !strings.Contains(err.Error(), "want has") {
			t.Errorf("%d tensors: %v", len(tensors), err)
		}
	}
}

func TestFit(t *testing.T) {
	c := newFixture(t).listening(t)
	req := wire.FitRequest{DType: "float32"}
	const unit = 0x1p-10 // every product with it is exact
	for i := range 200 {
		req.Samples = append(req.Samples, wire.FitSample{MaxAbs: float64(i) * unit, MaxWant: 1})
	}
	fit := func(req wire.FitRequest) (*wire.Calibration, error) {
		body, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		return ask[wire.Calibration](t, c, "/v1/fit", jsonType, body)
	}
	// Held in are 0, 2, …, 198 units: the 95th percentile is 188 of them, the 99th 196.
	got, err := fit(req)
	if err != nil || got.ATol != 1.5*188*unit || got.Fitted != 100 || got.HeldOut != 100 || got.FalseAlarms != 0 {
		t.Errorf("fit = %+v, %v", got, err)
	}
	percentile, factor := 99.0, 2.0
	req.Percentile, req.Factor = &percentile, &factor
	if got, err = fit(req); err != nil || got.ATol != 2*196*unit {
		t.Errorf("fit with p99 x 2 = %+v, %v", got, err)
	}
	factor = 1
	percentile = 50
	if got, err = fit(req); err != nil || got.FalseAlarms != 50 || got.FalseAlarmRate != 0.5 {
		t.Errorf("fit with the median = %+v, %v", got, err)
	}
	for _, bad := range []struct {
		percentile, factor float64
		n                  int
		says               string
	}{{0, 1.5, 200, "percentile is 0"}, {95, 0.5, 200, "factor is 0.5"}, {95, 1.5, 39, "at least 40 samples, got 39"}} {
		percentile, factor = bad.percentile, bad.factor
		short := req
		short.Samples = req.Samples[:bad.n]
		if _, err = fit(short); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("fit(%+v): %v", bad, err)
		}
	}
}
