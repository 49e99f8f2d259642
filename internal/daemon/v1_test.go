package daemon

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/store"
	"gpuemu/internal/testkit"
)

// The project of the tests: an op that is right, one that is wrong, one that the client executes, one that is slow, one
// with a reference of its own that takes kwargs.
const v1Ops = `
import time
import numpy as np

def softmax(inputs):
    x = inputs["input"].astype(np.float64)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(inputs["input"].dtype)

def softmax64(inputs):
    x = inputs["input"].astype(np.float64)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def softmax_tail(inputs):  # forgets the last, partial tile of 16 columns
    y = softmax(inputs).copy()
    n = y.shape[-1]
    if n % 16 and n > 16:
        y[..., n - n % 16:] = 0
    return y

def softmax_raises(inputs):
    raise ValueError("no such kernel")

def softmax_nan(inputs):
    y = softmax(inputs).copy()
    y[..., 0] = np.nan
    return y

def slow(inputs):
    time.sleep(0.2)
    return softmax(inputs)

def scaled(inputs, **kwargs):
    return inputs["x"].astype(np.float64) * float(kwargs.get("scale", "1"))
`

const v1Toml = `
[project]
name = "published"

[validation]
dtypes = ["float32"]

[ci]
fuzz_iterations = 4
parallel = 2
[ci.quick]
fuzz_iterations = 2

[[ops]]
name = "softmax"
candidate = "ops.py:softmax"

[[ops]]
name = "tail"
schema = "softmax"
candidate = "ops.py:softmax_tail"

[[ops]]
name = "mine"
schema = "softmax"

[[ops]]
name = "matmul"

[[ops]]
name = "slow"
schema = "softmax"
candidate = "ops.py:slow"

[[ops]]
name = "raises"
schema = "softmax"
candidate = "ops.py:softmax_raises"

[[ops]]
name = "nan"
schema = "softmax"
candidate = "ops.py:softmax_nan"

[[ops]]
name = "scaled"
input_names = ["x"]
reference = "ops.py:scaled"
`

// v1Trial is a handler on a project of its own.
type v1Trial struct {
	*v1Handler
	t    testing.TB
	toml string // path
	shut atomic.Int32
}

func newV1Trial(t testing.TB, toml string) *v1Trial {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ops.py", v1Ops)
	write("gpuemu.toml", toml)
	st, err := store.Open(context.Background(), filepath.Join(dir, "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &campaign.Engine{Store: st, RunDir: t.TempDir(), Python: testkit.Python(t), Now: time.Now}
	t.Cleanup(func() {
		e.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	tr := &v1Trial{t: t, toml: filepath.Join(dir, "gpuemu.toml")}
	tr.v1Handler = &v1Handler{
		engine: e, started: time.Now(), version: "9.9.9", now: time.Now, log: slog.New(slog.DiscardHandler),
		shutdown: func() { tr.shut.Add(1) },
		project: func(path string) (campaign.Project, error) {
			if path == "" {
				path = tr.toml
			}
			cfg, err := config.Load(path)
			return campaign.Project{Config: cfg}, err
		},
	}
	return tr
}

// v1Object is a JSON object with exact numbers.
type v1Object map[string]any

func (o v1Object) text(name string) string { return fmt.Sprint(o[name]) }
func (o v1Object) in(name string) v1Object { m, _ := o[name].(map[string]any); return m }
func (o v1Object) list(name string) []any  { l, _ := o[name].([]any); return l }
func (o v1Object) at(name string, i int) v1Object {
	m, _ := o.list(name)[i].(map[string]any)
	return m
}

// ask sends a request and returns the reply.
func (tr *v1Trial) ask(body string) v1Object {
	tr.t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(tr.serve(context.Background(), []byte(body)))))
	dec.UseNumber()
	var out v1Object
	if err := dec.Decode(&out); err != nil {
		tr.t.Fatalf("reply to %.200s: %v", body, err)
	}
	return out
}

// want is ask for a reply of that type.
func (tr *v1Trial) want(kind, body string) v1Object {
	tr.t.Helper()
	out := tr.ask(body)
	if out["type"] != kind {
		tr.t.Fatalf("%.200s: reply %v, want %s", body, out, kind)
	}
	return out
}

// refused is ask for an error with that code and a message with that text.
func (tr *v1Trial) refused(code, text, body string) {
	tr.t.Helper()
	out := tr.ask(body)
	if out["type"] != "Error" || out["code"] != code || !strings.Contains(out.text("message"), text) {
		tr.t.Errorf("%.200s: reply %v, want %s with %q", body, out, code, text)
	}
}

// v1Floats is a tensor of float32.
func v1Floats(shape string, values ...float32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return fmt.Sprintf(`{"shape":%s,"strides":[-4],"dtype":"float32","data":"%s"}`, shape,
		base64.StdEncoding.EncodeToString(b))
}

func v1Fuzz(seed uint64, dtypes string) string {
	return fmt.Sprintf(`{"seed":%d,"shape_options":{"batch_sizes":[1,2],"seq_lengths":[3],"hidden_dims":[33],
		"edge_cases":[]},"dtypes":[%s],"layouts":["Contiguous","Strided"]}`, seed, dtypes)
}

func TestV1PingAndShutdown(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	started := tr.started
	tr.now = func() time.Time { return started.Add(90 * time.Second) }
	pong := tr.want("Pong", `{"type":"Ping","unknown":1}`)
	if pong.text("version") != "9.9.9" || pong.text("protocol_version") != "1" || pong.text("uptime_secs") != "90" {
		t.Errorf("Pong = %v", pong)
	}
	tr.want("Ok", `{"type":"Shutdown"}`)
	if tr.shut.Load() != 1 {
		t.Errorf("shutdown was called %d times, want 1", tr.shut.Load())
	}
}

func TestV1BadRequests(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	one := v1Floats("[1]", 1)
	submit := func(op, input, output string) string {
		return fmt.Sprintf(`{"type":"SubmitOutput","op_name":%q,"seed":1,"kwargs":{},"inputs":{"input":%s},"output":%s}`,
			op, input, output)
	}
	validate := func(op, kwargs string) string {
		return fmt.Sprintf(`{"type":"ValidateOp","op_name":%q,"kwargs":%s,"inputs":{"input":%s},"output":%s}`, op, kwargs,
			one, one)
	}
	fuzz := func(config string) string {
		return `{"type":"FuzzOp","op_name":"softmax","iterations":1,"fail_fast":false,"fuzz_config":` + config + `}`
	}
	for _, c := range []struct{ code, text, body string }{
		{"InvalidRequest", "Invalid request: JSON error: ", `{`},
		{"InvalidRequest", "Invalid request: JSON error: ", ``},
		{"InvalidRequest", "unknown variant `Nope`", `{"type":"Nope"}`},
		{"InvalidRequest", "missing field `kwargs`",
			`{"type":"ValidateOp","op_name":"softmax","inputs":{},"output":` + one + `}`},
		{"InvalidRequest", "limit", `{"type":"ListResults","limit":-1}`},
		{"OpNotFound", "Configured ops: [softmax, tail, mine, matmul", submit("sofmax", one, one)},
		{"OpNotFound", "did you mean", submit("sofmax", one, one)},
		{"InvalidRequest", "inputs.input", submit("softmax", v1Floats("[2]", 1), one)},
		{"InvalidRequest", "output", submit("softmax", one, v1Floats("[3]", 1))},
		{"InvalidRequest", "inputs.input: dtype: unknown dtype \"complex64\"",
			submit("softmax", strings.Replace(one, "float32", "complex64", 1), one)},
		{"InvalidRequest", "limit", submit("softmax", v1Floats("[4294967296,4294967296]"), one)},
		{"InvalidRequest", "dimensions", submit("softmax", v1Floats("[1,1,1,1,1,1,1,1,1]", 1), one)},
		{"InvalidRequest", "there are no inputs",
			`{"type":"SubmitOutput","op_name":"softmax","seed":1,"kwargs":{},"inputs":{},"output":` + one + `}`},
		{"InvalidRequest", "has no attribute \"axs\"",
			validate("softmax", `{"axs":"0"}`)},
		{"InvalidRequest", "attribute \"eps\"", validate("rms_norm", `{"eps":"x"}`)},
		{"OpNotFound", "Configured ops", strings.Replace(fuzz(v1Fuzz(1, `"float32"`)), "softmax", "nothing", 1)},
		{"InvalidRequest", "fuzz_config.dtypes[0]", fuzz(v1Fuzz(1, `"complex64"`))},
		{"InvalidRequest", "the list is empty", fuzz(v1Fuzz(1, ``))},
		{"InvalidRequest", "bytes of inputs, the limit is",
			fuzz(strings.Replace(v1Fuzz(1, `"float32"`), "[33]", "[1000000000]", 1))},
		{"InvalidRequest", "iterations", strings.Replace(fuzz(v1Fuzz(1, `"float32"`)), `iterations":1`,
			`iterations":18446744073709551615`, 1)},
		{"InvalidRequest", "layouts", fuzz(strings.Replace(v1Fuzz(1, `"float32"`), "Strided", "strided", 1))},
		{"InvalidRequest", "count", `{"type":"GetTestBatch","op_name":"softmax","count":100001,"fuzz_config":` +
			v1Fuzz(1, `"float32"`) + `}`},
		{"NotFound", "seed 77", `{"type":"GetResult","seed":77}`},
		{"NotFound", "seed 77", `{"type":"Reproduce","seed":77}`},
		{"NotFound", "seed 77", `{"type":"Minimize","seed":77,"strategy":"BinarySearchDims","max_iters":10}`},
		{"InvalidRequest", "max_iters", `{"type":"Minimize","seed":77,"strategy":"BinarySearchDims","max_iters":0}`},
		{"InvalidRequest", "strategy", `{"type":"Minimize","seed":77,"strategy":"All","max_iters":1}`},
		{"PtxParseError", "none of the known formats", `{"type":"LintKernel","kernel_name":null,"ptx_content":""}`},
		{"PtxParseError", "text.ptx:1:1: ", `{"type":"LintKernel","kernel_name":null,"ptx_content":".version 8.0"}`},
		{"PtxParseError", "CUDA source", `{"type":"LintKernel","kernel_name":"k","ptx_content":"__global__ void k();"}`},
		{"ArtifactNotFound", "no artifacts yet", `{"type":"StoreArtifactBaseline","tag":"x"}`},
		{"BaselineNotFound", "no baseline", `{"type":"DiffArtifactBaseline","tag":"x"}`},
		{"ArtifactNotFound", "nope", `{"type":"GetArtifact","kernel_name":"nope"}`},
		{"BaselineNotFound", "no baseline", `{"type":"CompareBaseline","tag":"x"}`},
		{"BaselineNotFound", "no baseline", `{"type":"RunCi","quick":true,"baseline":"x","parallel_jobs":0}`},
		{"NotFound", "no results yet", `{"type":"StoreBaseline","tag":"x"}`},
		{"InvalidRequest", "tag", `{"type":"StoreBaseline","tag":""}`},
		{"NotFound", "no CI run", `{"type":"GetCiSummary"}`},
		{"InvalidRequest", "parallel is 5000", `{"type":"RunCi","quick":true,"baseline":null,"parallel_jobs":5000}`},
	} {
		tr.refused(c.code, c.text, c.body)
	}
}

// TestV1ConfigFaults: a configuration that is not there or wrong is said to be so.
func TestV1ConfigFaults(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	ask := `{"type":"GetTestCase","op_name":"softmax","fuzz_config":` + v1Fuzz(1, `"float32"`) + `,"config":%q}`
	tr.refused("ConfigError", "nowhere.toml", fmt.Sprintf(ask, "/nowhere.toml"))
	tr.want("TestCase", fmt.Sprintf(ask, tr.toml))
	if err := os.WriteFile(tr.toml, []byte("[[ops]]\nnme = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr.refused("ConfigError", "nme", fmt.Sprintf(ask, ""))
	tr.want("Pong", `{"type":"Ping"}`)
}

func TestV1SubmitAndResults(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	input := v1Floats("[1,1,2]", 0, 0)
	submit := func(kind, output, more string) v1Object {
		return tr.want(strings.Replace(kind, "Output", "Result", 1), fmt.Sprintf(
			`{"type":%q,"op_name":"mine","inputs":{"input":%s},"output":%s,"kwargs":{}%s}`, kind, input, output, more))
	}
	const seed = "18446744073709551615" // no double holds it
	right := submit("SubmitOutput", v1Floats("[1,1,2]", 0.5, 0.5), `,"seed":`+seed).in("result")
	if right["passed"] != true || right.text("seed") != seed || right["repro_info"] != nil ||
		right.in("error_stats").text("count") != "2" || len(right.list("failures")) != 0 || right["failures"] == nil {
		t.Errorf("right output: %v", right)
	}
	wrong := submit("SubmitOutput", v1Floats("[1,1,2]", 0.5, 0.75), `,"seed":7`).in("result")
	first := wrong.at("failures", 0)
	if wrong["passed"] != false || first["kind"] != "ToleranceExceeded" || first.text("index") != "1" ||
		first.text("expected") != "0.5" || first.text("actual") != "0.75" || wrong.text("max_diff") != "0.25" {
		t.Errorf("wrong output: %v", wrong)
	}
	if info := wrong.in("repro_info"); info.text("shape") != "[1 1 2]" || info["layout"] != "Contiguous" ||
		info["input_snapshot"] != nil || info["dtype"] != "float32" {
		t.Errorf("repro_info: %v", info)
	}
	nan := submit("SubmitOutput", v1Floats("[1,1,2]", float32(math.NaN()), 0.5), `,"seed":8`).in("result")
	if f := nan.at("failures", 0); nan["passed"] != false || f["kind"] != "NaNDetected" || f["actual"] != nil {
		t.Errorf("NaN: %v", nan)
	}
	inf := submit("SubmitOutput", v1Floats("[1,1,2]", float32(math.Inf(1)), 0.5), `,"seed":9`).in("result")
	if f := inf.at("failures", 0); f["kind"] != "InfDetected" {
		t.Errorf("Inf: %v", inf)
	}
	shape := submit("SubmitOutput", v1Floats("[1,2,1]", 0.5, 0.5), `,"seed":10`).in("result")
	if f := shape.at("failures", 0); shape["passed"] != false || f["kind"] != "ShapeMismatch" {
		t.Errorf("shape: %v", shape)
	}
	narrow := `{"shape":[1,1,2],"strides":[],"dtype":"f16","data":"ADgAOA=="}`
	half := submit("SubmitOutput", narrow, `,"seed":11`).in("result")
	if f := half.at("failures", 0); f["kind"] != "DTypeMismatch" {
		t.Errorf("dtype: %v", half)
	}
	tr.now = func() time.Time { return time.Unix(1700000000, 5) }
	validate := fmt.Sprintf(`{"type":"ValidateOp","op_name":"mine","inputs":{"x":%s},"output":%s,"kwargs":{}}`,
		input, v1Floats("[1,1,2]", 0.5, 0.5))
	a := tr.want("ValidationResult", validate).in("result")
	b := tr.want("ValidationResult", validate).in("result")
	if a["passed"] != true || a.text("seed") != "1700000000000000005" || b.text("seed") != "1700000000000000006" {
		t.Errorf("ValidateOp: %v, %v", a, b)
	}
	if got := tr.want("ValidationResult", `{"type":"GetResult","seed":`+seed+`}`).in("result"); got["passed"] != true {
		t.Errorf("GetResult: %v", got)
	}
	if got := tr.want("Results", `{"type":"ListResults","limit":18446744073709551615}`); len(got.list("results")) != 8 {
		t.Errorf("ListResults: %d results, want 8", len(got.list("results")))
	}
	failures := tr.want("Results", `{"type":"ListFailures","limit":3}`)
	if len(failures.list("results")) != 3 || failures.at("results", 0)["passed"] != false {
		t.Errorf("ListFailures: %v", failures)
	}
	if got := tr.want("Results", `{"type":"ListFailures","limit":0}`); len(got.list("results")) != 0 {
		t.Errorf("limit 0: %v", got)
	}
	// The op runs on the client: reproduce gives the stored result and the inputs.
	replay := tr.want("ReproduceResult", `{"type":"Reproduce","seed":7}`)
	if replay.in("result")["passed"] != false || replay.in("inputs").in("input").text("data") != "AAAAAAAAAAA=" ||
		replay.in("result").in("repro_info")["input_snapshot"] == nil {
		t.Errorf("Reproduce: %v", replay)
	}
	tr.refused("InvalidRequest", "cannot be executed here", `{"type":"Minimize","seed":7,"strategy":"BinarySearchDims",
		"max_iters":10}`)
}

// TestV1Snapshot: the published binary form, byte by byte.
func TestV1Snapshot(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	tr.want("SubmitResult", fmt.Sprintf(`{"type":"SubmitOutput","op_name":"mine","seed":7,"kwargs":{},
		"inputs":{"input":%s},"output":%s}`, v1Floats("[1,1,2]", 1, 2), v1Floats("[1,1,2]", 9, 9)))
	info := tr.want("ReproduceResult", `{"type":"Reproduce","seed":7}`).in("result").in("repro_info")
	got, err := base64.StdEncoding.DecodeString(info.text("input_snapshot"))
	one, two := "\x01\x00\x00\x00", "\x02\x00\x00\x00"
	want := "\x01\x00" + "\x05\x00input" + "\x03\x00" + one + one + two + "\x03\x00" + two + two + one + "\x02" +
		"\x08\x00\x00\x00" + "\x00\x00\x80\x3f\x00\x00\x00\x40"
	if err != nil || string(got) != want {
		t.Errorf("snapshot = %q, %v, want %q", got, err, want)
	}
}

// TestV1Kwargs: what is no attribute reaches the reference, as text.
func TestV1Kwargs(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	for _, c := range []struct {
		kwargs string
		passed bool
	}{{`{"scale":"3"}`, true}, {`{}`, false}, {`{"scale":"2.5"}`, false}} {
		got := tr.want("ValidationResult", fmt.Sprintf(`{"type":"ValidateOp","op_name":"scaled","kwargs":%s,
			"inputs":{"x":%s},"output":%s}`, c.kwargs, v1Floats("[2]", 1, 2), v1Floats("[2]", 3, 6))).in("result")
		if got["passed"] != c.passed {
			t.Errorf("kwargs %s: %v, want passed %v", c.kwargs, got, c.passed)
		}
	}
	got := tr.want("ValidationResult", fmt.Sprintf(`{"type":"ValidateOp","op_name":"scaled","kwargs":{"scale":"x"},
		"inputs":{"x":%s},"output":%s}`, v1Floats("[1]", 1), v1Floats("[1]", 1))).in("result")
	if f := got.at("failures", 0); got["passed"] != false || f["kind"] != "ReferenceError" ||
		!strings.HasPrefix(f.text("message"), "not run: ") {
		t.Errorf("a reference that fails: %v", got)
	}
}

func TestV1Cases(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	batch := tr.want("TestBatch", `{"type":"GetTestBatch","op_name":"matmul","count":3,"fuzz_config":`+
		v1Fuzz(42, `"float32","float16"`)+`}`)
	if len(batch.list("cases")) != 3 || len(batch.at("cases", 2).in("inputs")) != 2 {
		t.Fatalf("TestBatch: %v", batch)
	}
	one := tr.want("TestCase", `{"type":"GetTestCase","op_name":"matmul","fuzz_config":`+
		v1Fuzz(42, `"float32","float16"`)+`}`)
	delete(one, "type")
	if fmt.Sprint(map[string]any(one)) != fmt.Sprint(batch.list("cases")[0]) {
		t.Errorf("TestCase is not the first of the batch:\n%v\n%v", one, batch.list("cases")[0])
	}
	if got := tr.want("TestBatch", `{"type":"GetTestBatch","op_name":"matmul","count":0,"fuzz_config":`+
		v1Fuzz(42, `"float32"`)+`}`); len(got.list("cases")) != 0 || got["cases"] == nil {
		t.Errorf("empty batch: %v", got)
	}
	schema := `,"op_schema":{"name":"mm","dims":[{"name":"M","candidates":[2]},{"name":"K","candidates":[3]},
		{"name":"N","candidates":[5]}],"inputs":[{"name":"left","dims":["M","K"]},{"name":"right","dims":["K","N"]}],
		"output":{"name":"c","dims":["M","N"]}}}`
	config := strings.TrimSuffix(v1Fuzz(42, `"float32"`), "}") + schema
	c := tr.want("TestCase", `{"type":"GetTestCase","op_name":"matmul","fuzz_config":`+config+`}`)
	if c.text("shape") != "[2 5]" || c.in("inputs").in("right").text("shape") != "[3 5]" || len(c.in("inputs")) != 2 {
		t.Errorf("with a schema: %v", c)
	}
	tr.refused("InvalidRequest", "two inputs", `{"type":"GetTestCase","op_name":"matmul","fuzz_config":`+
		strings.Replace(config, `"right"`, `"left"`, 1)+`}`)
	big := strings.Replace(v1Fuzz(42, `"float32"`), "[33]", "[4000000]", 1)
	tr.refused("InvalidRequest", "ask for fewer cases", `{"type":"GetTestBatch","op_name":"softmax","count":20,
		"fuzz_config":`+big+`}`)
}

func TestV1FuzzReproduceMinimize(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	fuzz := func(op string, n int, failFast bool) v1Object {
		return tr.want("FuzzResults", fmt.Sprintf(`{"type":"FuzzOp","op_name":%q,"iterations":%d,"fail_fast":%v,
			"fuzz_config":%s}`, op, n, failFast, v1Fuzz(5, `"float32"`)))
	}
	counts := func(o v1Object) string {

		return fmt.Sprintf("%v %v %v %d", o["total"], o["passed"], o["failed"], len(o.list("failures")))

	}
	if got := fuzz("softmax", 5, false); counts(got) != "5 5 0 0" || got.text("seed") != "5" {
		t.Errorf("softmax: %v", got)
	}
	if got := fuzz("mine", 4, false); counts(got) != "4 0 4 4" ||
		got.at("failures", 0).at("failures", 0)["kind"] != "ReferenceError" {
		t.Errorf("an op without a candidate must not pass: %v", got)
	}
	if got := fuzz("mine", 4, true); counts(got) != "1 0 1 1" {
		t.Errorf("fail_fast: %v", got)
	}
	if got := fuzz("raises", 2, false); counts(got) != "2 0 2 2" ||
		!strings.Contains(got.at("failures", 0).at("failures", 0).text("message"), "no such kernel") {
		t.Errorf("raises: %v", got)
	}
	if got := fuzz("nan", 1, false); got.at("failures", 0).at("failures", 0)["kind"] != "NaNDetected" {
		t.Errorf("nan: %v", got)
	}
	got := fuzz("tail", 3, false)
	if counts(got) != "3 0 3 3" || len(got.at("failures", 0).list("failures")) > maxV1Failures {
		t.Fatalf("tail: %v", got)
	}
	info := got.at("failures", 0).in("repro_info")
	if info.in("fuzz_config").text("seed") != "5" || info["input_snapshot"] != nil {
		t.Errorf("repro_info: %v", info)
	}
	seed := got.at("failures", 0).text("seed")
	replay := tr.want("ReproduceResult", `{"type":"Reproduce","seed":`+seed+`}`)
	if replay.in("result")["passed"] != false || replay.in("result").text("op_name") != "tail" {
		t.Errorf("Reproduce: %v", replay)
	}
	first := tr.want("TestCase", `{"type":"GetTestCase","op_name":"tail","fuzz_config":`+v1Fuzz(5, `"float32"`)+`}`)
	if first.text("seed") != seed || first.in("inputs").in("input")["data"] != replay.in("inputs").in("input")["data"] {
		t.Errorf("Reproduce gives other inputs than GetTestCase")
	}
	min := tr.want("MinimizeResult", `{"type":"Minimize","seed":`+seed+`,"strategy":"BinarySearchDims","max_iters":200}`)
	if min.text("original_seed") != seed || min.text("minimized_seed") == seed ||
		min.text("minimized_shape") != "[1 1 17]" || min.in("result")["passed"] != false {
		t.Errorf("Minimize: %v", min)
	}
	again := tr.want("ReproduceResult", `{"type":"Reproduce","seed":`+min.text("minimized_seed")+`}`)
	if again.in("result")["passed"] != false || again.in("inputs").in("input").text("shape") != "[1 1 17]" {
		t.Errorf("the minimised case does not replay: %v", again)
	}
	tr.want("MinimizeResult", `{"type":"Minimize","seed":`+seed+`,"strategy":"BinarySearchValues","max_iters":20}`)
}

// TestV1CiAndBaselines: RunCi counts, its summary stays, and a baseline finds what got worse.
func TestV1CiAndBaselines(t *testing.T) {
	small := v1Toml[:strings.Index(v1Toml, "[[ops]]\nname = \"mine\"")]
	small = strings.Replace(small, "[ci]", "values = \"normal\"\n[ci]", 1) // under which softmax passes every case
	tr := newV1Trial(t, small)
	ci := tr.want("CiRunComplete", `{"type":"RunCi","quick":true,"baseline":null,"parallel_jobs":1}`)
	if ci.text("total_tests") != "4" || ci.text("skipped") != "0" || len(ci.list("validation_results")) != 4 ||
		ci["artifact_diffs"] != nil || ci["lint_results"] == nil {
		t.Fatalf("RunCi: %v", ci)
	}
	last := tr.want("CiRunComplete", `{"type":"GetCiSummary"}`)
	if fmt.Sprint(last) != fmt.Sprint(ci) {
		t.Errorf("GetCiSummary = %v, want %v", last, ci)
	}
	tr.want("Ok", `{"type":"StoreBaseline","tag":"v1"}`)
	same := tr.want("BaselineComparison", `{"type":"CompareBaseline","tag":"v1"}`)
	if same["has_regressions"] != false || len(same.list("comparisons")) != 4 || same.text("baseline_tag") != "v1" {
		t.Errorf("compared with itself: %v", same)
	}
	// softmax becomes the wrong one: what passed before is a regression, in CompareBaseline and in RunCi.
	ops, err := os.ReadFile(tr.toml)
	if err != nil {
		t.Fatal(err)
	}
	worse := strings.Replace(string(ops), `"ops.py:softmax"`, `"ops.py:softmax_nan"`, 1)
	if err := os.WriteFile(tr.toml, []byte(worse), 0o600); err != nil {
		t.Fatal(err)
	}
	ci = tr.want("CiRunComplete", `{"type":"RunCi","quick":true,"baseline":"v1","parallel_jobs":0}`)
	if ci.at("validation_results", 0)["passed"] != false || ci.text("failed") == "0" ||
		!strings.Contains(fmt.Sprint(ci.at("validation_results", 0)), `regression against baseline \"v1\"`) &&
			!strings.Contains(fmt.Sprint(ci.at("validation_results", 0)), `regression against baseline "v1"`) {
		t.Errorf("RunCi with a baseline: %v", ci)
	}
	now := tr.want("BaselineComparison", `{"type":"CompareBaseline","tag":"v1"}`)
	if now["has_regressions"] != true || now.at("comparisons", 0)["is_regression"] != true ||
		now.at("comparisons", 0)["baseline_passed"] != true || now.at("comparisons", 0)["current_passed"] != false {
		t.Errorf("CompareBaseline: %v", now)
	}
	// An op that vanished is named.
	before, _, _ := strings.Cut(small, "[[ops]]")
	gone := before + small[strings.Index(small, "[[ops]]\nname = \"tail\""):]
	if err := os.WriteFile(tr.toml, []byte(gone), 0o600); err != nil {
		t.Fatal(err)
	}
	tr.want("CiRunComplete", `{"type":"RunCi","quick":true,"baseline":null,"parallel_jobs":0}`)
	now = tr.want("BaselineComparison", `{"type":"CompareBaseline","tag":"v1"}`)
	if first := now.at("comparisons", 0); first.text("op_name") != "softmax" || now["has_regressions"] != true ||
		first["current_max_diff"] != nil {
		t.Errorf("a vanished op: %v", now)
	}
}

// TestV1BaselineOfClients: results of clients alone make a baseline, too.
func TestV1BaselineOfClients(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	submit := func(x float32) {
		tr.want("SubmitResult", fmt.Sprintf(`{"type":"SubmitOutput","op_name":"mine","seed":3,"kwargs":{},
			"inputs":{"input":%s},"output":%s}`, v1Floats("[1,1,2]", 0, 0), v1Floats("[1,1,2]", x, x)))
	}
	submit(0.5)
	tr.want("Ok", `{"type":"StoreBaseline","tag":"good"}`)
	submit(0.75)
	got := tr.want("BaselineComparison", `{"type":"CompareBaseline","tag":"good"}`)
	if len(got.list("comparisons")) != 1 || got["has_regressions"] != true {
		t.Errorf("CompareBaseline: %v", got)
	}
}

// TestV1Concurrent: a long run keeps nobody waiting, and many requests at once are answered rightly.
func TestV1Concurrent(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	tr.want("CiRunComplete", `{"type":"RunCi","quick":true,"baseline":null,"parallel_jobs":2}`)
	long := make(chan v1Object)
	go func() {
		long <- tr.ask(`{"type":"FuzzOp","op_name":"slow","iterations":10,"fail_fast":false,"fuzz_config":` +
			v1Fuzz(1, `"float32"`) + `}`)
	}()
	start := time.Now()
	tr.want("Pong", `{"type":"Ping"}`)
	if took := time.Since(start); took > time.Second {
		t.Errorf("Ping took %v during a FuzzOp", took)
	}
	var wg sync.WaitGroup
	var wrong atomic.Int32
	for i := range 16 {
		wg.Go(func() {
			out := float32(0.5)
			if i%2 == 1 {
				out = 0.25
			}
			got := tr.ask(fmt.Sprintf(`{"type":"SubmitOutput","op_name":"mine","seed":%d,"kwargs":{},
				"inputs":{"input":%s},"output":%s}`, 100+i, v1Floats("[1,1,2]", 0, 0), v1Floats("[1,1,2]", out, out)))
			if got.in("result")["passed"] != (i%2 == 0) || got.in("result").text("seed") != fmt.Sprint(100+i) {
				wrong.Add(1)
			}
			tr.ask(`{"type":"GetCiSummary"}`)
			tr.ask(`{"type":"ListFailures","limit":10}`)
		})
	}
	wg.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of 16 submissions at once were answered wrongly", n)
	}
	if got := <-long; got.text("passed") != "10" {
		t.Errorf("FuzzOp: %v", got)
	}
}

// TestV1Panic: a fault of ours becomes a reply and a line in the log.
func TestV1Panic(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	var log strings.Builder
	tr.log = slog.New(slog.NewTextHandler(&log, nil))
	tr.project = func(string) (campaign.Project, error) { panic("broken") }
	tr.refused("InternalError", "fault of gpuemu", `{"type":"StoreBaseline","tag":"x"}`)
	if !strings.Contains(log.String(), "broken") {
		t.Errorf("log = %q, want the panic in it", log.String())
	}
	tr.project = func(string) (campaign.Project, error) { return campaign.Project{}, os.ErrInvalid }
	tr.refused("InternalError", "invalid argument", `{"type":"StoreBaseline","tag":"x"}`)
}

// FuzzServeV1: whatever comes, a reply of the protocol goes back.
func FuzzServeV1(f *testing.F) {
	one := v1Floats("[1]", 1)
	for _, body := range []string{
		`{"type":"Ping"}`, `{"type":"ListResults","limit":3}`, `{"type":"GetResult","seed":1}`,
		`{"type":"ValidateOp","op_name":"mine","kwargs":{},"inputs":{"input":` + one + `},"output":` + one + `}`,
		`{"type":"SubmitOutput","op_name":"mine","kwargs":{"axis":"0"},"seed":3,"inputs":{"input":` + one + `},"output":` +
			v1Floats("[0]") + `}`,
		`{"type":"GetTestBatch","op_name":"mine","count":2,"fuzz_config":` + v1Fuzz(1, `"int8","bool"`) + `}`,
		`{"type":"FuzzOp","op_name":"mine","iterations":2,"fail_fast":true,"fuzz_config":` + v1Fuzz(1, `"bfloat16"`) + `}`,
		`{"type":"Reproduce","seed":3}`, `{"type":"Minimize","seed":3,"strategy":"BinarySearchDims","max_iters":1}`,
		`{"type":"StoreBaseline","tag":"t"}`, `{"type":"CompareBaseline","tag":"t"}`, `{"type":"ListArtifacts"}`,
		`{"type":"LintKernel","kernel_name":null,"ptx_content":""}`,
		`{"type":"LintKernel","kernel_name":"k","ptx_content":".version 8.0\n.target sm_80\n.entry k() { ret; }"}`,
		`{"type":"StoreArtifactBaseline","tag":"t"}`, `{"type":"DiffArtifactBaseline","tag":"t"}`,
		`{"type":"StoreArtifact","kernel_name":"k","metrics":{"kernel_name":"k","register_count":4294967295,"spill_count":1,
			"local_memory_bytes":0,"shared_memory_bytes":0,"instruction_count":9,"patterns_found":[],"source":"Both",
			"timestamp":0,"ptx_content":"x"}}`, `{"type":"GetArtifact","kernel_name":"k"}`,
	} {
		f.Add([]byte(body))
	}
	// Nothing of this project executes anything: the fuzzer writes its own requests.
	tr := newV1Trial(f, "[[ops]]\nname = \"mine\"\nschema = \"softmax\"\n")
	panicked := false
	tr.log = slog.New(panicWatch{slog.DiscardHandler, &panicked})
	f.Fuzz(func(t *testing.T, body []byte) {
		if req := string(body); strings.Contains(req, "config\"") && strings.Contains(req, "\"/") {
			t.Skip("names a file of this machine")
		}
		reply := tr.serve(context.Background(), body)
		var out struct{ Type string }
		if err := json.Unmarshal(reply, &out); err != nil || out.Type == "" {
			t.Errorf("reply %q: %v", reply, err)
		}
		if panicked {
			t.Fatalf("request %q: a fault of gpuemu: %s", body, reply)
		}
	})
}

// panicWatch notes that something was logged as an error.
type panicWatch struct {
	slog.Handler
	seen *bool
}

func (w panicWatch) Enabled(context.Context, slog.Level) bool { return true }

func (w panicWatch) Handle(_ context.Context, r slog.Record) error {
	*w.seen = *w.seen || r.Level >= slog.LevelError
	return nil
}
