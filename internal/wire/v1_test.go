package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

const (
	fuzzJSON = `{"seed":18446744073709551615,"shape_options":{"batch_sizes":[1,2],"seq_lengths":[64],"hidden_dims":[],` +
		`"edge_cases":[[1],[1,1],[]]},"dtypes":["float32"],"layouts":["Contiguous","Strided","Transposed"]}`
	metricsJSON = `"kernel_name":"k","register_count":32,"spill_count":0,"local_memory_bytes":0,` +
		`"shared_memory_bytes":4096,` +
		`"instruction_count":7,"patterns_found":["fma"],"source":"Ptx","timestamp":5,"ptx_content":null`
	scalarJSON = `{"shape":[],"strides":[],"dtype":"float32","data":"AACAPw=="}`
)

var (
	fuzzConfig = V1FuzzConfig{Seed: math.MaxUint64, ShapeOptions: V1ShapeOptions{BatchSizes: Dims{1, 2},
		SeqLengths: Dims{64}, HiddenDims: Dims{}, EdgeCases: []Dims{{1}, {1, 1}, {}}}, DTypes: []string{"float32"},
		Layouts: []V1Layout{V1Contiguous, V1Strided, V1Transposed}}
	metrics = V1ArtifactMetrics{KernelName: "k", RegisterCount: 32, SharedMemoryBytes: 4096, InstructionCount: 7,
		PatternsFound: []string{"fma"}, Source: V1FromPtx, Timestamp: 5}
	scalar = TensorData{Shape: Dims{}, Strides: []int64{}, DType: "float32", Data: []byte{0, 0, 0x80, 0x3f}}
)

func TestDecodeV1(t *testing.T) {
	schema := fuzzConfig
	schema.OpSchema = &V1OpSchema{Name: "s", Dims: []V1DimSpec{{"n", Dims{3}}},
		Inputs: []V1TensorSchema{{"x", []string{"n"}}}}
	seen := map[reflect.Type]bool{}
	for in, want := range map[string]V1Request{
		`{"type":"Ping"}`: V1Ping{},
		" {\n\t\"type\" : \"Ping\" , \"x\":[{\"}\":1}] }\r\n":                       V1Ping{},
		`{"type":"Shutdown","seed":"not used"}`:                                     V1Shutdown{},
		`{"type":"ListArtifacts"}`:                                                  V1ListArtifacts{},
		`{"type":"GetCiSummary"}`:                                                   V1GetCiSummary{},
		`{"seed":9007199254740993,"type":"GetResult"}`:                              V1GetResult{Seed: 1<<53 + 1},
		`{"type":"ListResults","limit":100}`:                                        V1ListResults{100},
		`{"type":"ListFailures","limit":0}`:                                         V1ListFailures{0},
		`{"type":"StoreBaseline","tag":"v\u0031\"\\"}`:                              V1StoreBaseline{`v1"\`},
		`{"type":"CompareBaseline","tag":""}`:                                       V1CompareBaseline{""},
		`{"type":"StoreArtifactBaseline","tag":"t"}`:                                V1StoreArtifactBaseline{"t"},
		`{"type":"DiffArtifactBaseline","tag":"t"}`:                                 V1DiffArtifactBaseline{"t"},
		`{"type":"GetArtifact","kernel_name":"k"}`:                                  V1GetArtifact{"k"},
		`{"type":"Reproduce","seed":18446744073709551615}`:                          V1Reproduce{math.MaxUint64},
		`{"type":"LintKernel","kernel_name":null,"ptx_content":".version 8.0"}`:     V1LintKernel{nil, ".version 8.0"},
		`{"type":"LintKernel","kernel_name":"k","ptx_content":""}`:                  V1LintKernel{ptr("k"), ""},
		`{"type":"Minimize","seed":3,"strategy":"BinarySearchDims","max_iters":50}`: V1Minimize{3, V1BinarySearchDims, 50},
		`{"type":"RunCi","quick":true,"parallel_jobs":4}`:                           V1RunCi{Quick: true, ParallelJobs: 4},
		`{"type":"RunCi","quick":false,"baseline":"b","parallel_jobs":0,"config":"/x"}`: V1RunCi{Baseline: ptr("b"),
			Config: ptr("/x")},
		`{"type":"StoreArtifact","kernel_name":"z","metrics":{` + metricsJSON + `}}`: V1StoreArtifact{"z", metrics},
		`{"type":"FuzzOp","op_name":"a","fuzz_config":` + fuzzJSON + `,"iterations":9,"fail_fast":true}`: V1FuzzOp{
			OpName: "a", FuzzConfig: fuzzConfig, Iterations: 9, FailFast: true},
		`{"type":"GetTestCase","op_name":"a","fuzz_config":` + fuzzJSON + `}`: V1GetTestCase{OpName: "a",
			FuzzConfig: fuzzConfig},
		`{"type":"GetTestBatch","op_name":"a","fuzz_config":` + strings.TrimSuffix(fuzzJSON, "}") +
			`,"op_schema":{"name":"s","dims":[{"name":"n","candidates":[3]}],"inputs":[{"name":"x",` +
			`"dims":["n"]}]}},"count":2}`: V1GetTestBatch{OpName: "a", FuzzConfig: schema, Count: 2},
		`{"type":"ValidateOp","op_name":"a","inputs":{"x":` + scalarJSON + `},"output":{"shape":[2],"strides":[-4],` +
			`"dtype":">f4","data":"\u0041AAAAAAAAAA="},"kwargs":{"axis":"-1"}}`: V1ValidateOp{OpName: "a",
			Inputs: map[string]TensorData{"x": scalar}, Kwargs: map[string]string{"axis": "-1"},
			Output: TensorData{Dims{2}, []int64{-4}, ">f4", make([]byte, 8)}},
		`{"type":"SubmitOutput","op_name":"a","inputs":{},"output":` + scalarJSON + `,"seed":7,"kwargs":{}}`: V1SubmitOutput{
			OpName: "a", Inputs: map[string]TensorData{}, Output: scalar, Seed: 7, Kwargs: map[string]string{}},
	} {
		got, err := DecodeV1([]byte(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("DecodeV1(%s) = %+v, %v, want %+v", in, got, err, want)
		}
		seen[reflect.TypeOf(want)] = true
	}
	for _, r := range v1Requests {
		if !seen[reflect.TypeOf(r)] {
			t.Errorf("%T is not tested", r)
		}
	}
}

func TestDecodeV1Refuses(t *testing.T) {
	tensor := func(field string) string {
		return `{"type":"SubmitOutput","op_name":"a","inputs":{"x":` + field + `},"output":` + scalarJSON +
			`,"seed":7,"kwargs":{}}`
	}
	minimize := `{"type":"Minimize","seed":3,"max_iters":1,"strategy":`
	for _, tt := range []struct{ in, want string }{
		{``, "invalid type: expected an object"},
		{`[]`, "invalid type: expected an object"},
		{`{`, "expected a key at byte 1"},
		{`{"type":"Ping"`, "EOF while parsing the value at byte 8"},
		{`{"type":"Ping"} x`, "trailing characters at byte 16"},
		{`{"type":"Ping","a":1,}`, "expected a key at byte 21"},
		{`{"type":"Ping","a":}`, "expected value at byte 19"},
		{`{"type":"Ping","a":1 2}`, "a: expected value"},
		{`{"type":"Ping","a":[1}`, "EOF while parsing the value at byte 19"},
		{`{"type":"Ping","a":[1}}`, "a: expected value"},
		{`{"type":"Ping","a"}`, "expected `:` at byte 18"},
		{`{"type":"Ping" "a":1}`, "type: invalid character '\"' after top-level value"},
		{`{"type":"Ping","type":"x"}`, "duplicate field `type`"},
		{`{"a\x":1}`, `key at byte 1: invalid character 'x' in string escape code`},
		{`{"type":"Ping","a":"\"}`, "EOF while parsing the string at byte 19"},
		{`{}`, "missing field `type`"},
		{`{"type":1}`, "type: invalid type: number, expected string"},
		{`{"type":"ping"}`, "unknown variant `ping`, expected one of `Ping`, `Shutdown`, `ValidateOp`, "},
		{`{"type":"GetResult"}`, "missing field `seed`"},
		{`{"type":"GetResult","Seed":1}`, "missing field `seed`"},
		{`{"type":"GetResult","seed":null}`, "seed: invalid type: null"},
		{`{"type":"GetResult","seed":-1}`, "seed: invalid type: number -1, expected uint64"},
		{`{"type":"GetResult","seed":1.5}`, "seed: invalid type: number 1.5, expected uint64"},
		{`{"type":"GetResult","seed":"1"}`, "seed: invalid type: string, expected uint64"},
		{`{"type":"GetResult","seed":18446744073709551616}`,
			"seed: invalid type: number 18446744073709551616, expected uint64"},
		{minimize + `"Best"}`, "strategy: unknown variant `Best`, expected one of `BinarySearchDims`, "},
		{tensor(`{}`), "inputs.x: missing field `shape`"},
		{tensor(`[]`), "inputs.x: invalid type: expected an object"},
		{tensor(`{"shape":[],"dtype":"float32","data":""}`), "inputs.x: missing field `strides`"},
		{tensor(`{"shape":[2,-1],"strides":[],"dtype":"","data":""}`),
			"inputs.x.shape[1]: invalid value: integer `-1`, expected usize"},
		{tensor(`{"shape":{},"strides":[],"dtype":"","data":""}`),
			"inputs.x.shape: invalid type: object, expected slice"},
		{tensor(`{"shape":[],"strides":[],"dtype":"","data":1}`),
			"inputs.x.data: invalid type: expected a string of base64"},
		{tensor(`{"shape":[],"strides":[],"dtype":"","data":"A"}`),
			"inputs.x.data: base64: illegal base64 data at input byte 0"},
		{tensor(`{"shape":[],"strides":[],"dtype":"","data":"AA\n=="}`), "inputs.x.data: base64 with a line break"},
		{tensor(`{"shape":[` + strings.Repeat("1,", maxList) + `1],"strides":[],"dtype":"","data":""}`),
			"inputs.x.shape: list of"},
		{`{"type":"Ping","a":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}`,
			"recursion limit of 100 exceeded"},
		{`{"type":"RunCi","quick":true,"parallel_jobs":4294967296}`,
			"parallel_jobs: invalid type: number 4294967296, expected uint32"},
	} {
		_, err := DecodeV1([]byte(tt.in))
		var refused *V1DecodeError
		if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "Invalid request: JSON error: "+tt.want) {
			t.Errorf("DecodeV1(%.200s) = %v, want prefix %q", tt.in, err, tt.want)
		}
	}
}

func TestDecodeV1ManyMembers(t *testing.T) {
	var in bytes.Buffer
	in.WriteString(`{"type":"Ping"`)
	for i := range maxMembers {
		in.WriteString(`,"` + base64.StdEncoding.EncodeToString([]byte{byte(i), byte(i >> 8)}) + `":0`)
	}
	in.WriteString("}")
	if _, err := DecodeV1(in.Bytes()); err == nil || !strings.Contains(err.Error(), "more than 4096 members") {
		t.Errorf("DecodeV1 of too many members = %v", err)
	}
}

const (
	resultJSON = `{"passed":false,"seed":18446744073709551615,"op_name":"a<b","max_diff":0.5,"max_rel_diff":null,` +
		`"failures":[{"kind":"ToleranceExceeded","message":"m","index":3,"expected":1.0,"actual":null},` +
		`{"kind":"ShapeMismatch","message":"","index":null,"expected":null,"actual":null}],"timestamp":1,"duration_ms":2,` +
		`"repro_info":{"seed":4,"fuzz_config":null,"shape":[2,3],"strides":[3,1],"dtype":"float32","layout":"Contiguous",` +
		`"input_snapshot":"AQI="},"error_stats":{"count":6,"num_exceeding":1,"max_abs":1e-07,"mean_abs":0.0,"p50_abs":0.0,` +
		`"p90_abs":0.0,"p99_abs":0.0,"max_rel":0.0,"mean_rel":0.0,"max_ulp":9,"mean_ulp":1.5}}`
	emptyResultJSON = `{"passed":false,"seed":0,"op_name":"","max_diff":0.0,"max_rel_diff":0.0,"failures":[],` +
		`"timestamp":0,"duration_ms":0,"repro_info":null,"error_stats":null}`
	lintJSON = `{"kernel_name":"k","passed":false,"metrics":{` + metricsJSON + `},"violations":[` +
		`{"kind":"ExcessiveSpills","message":"m","actual":1,"threshold":0},` +
		`{"kind":"MissingRequiredPattern","message":"m","actual":null,` +
		`"threshold":null}],"timestamp":6}`
	diffJSON = `{"kernel_name":"k","baseline":null,"current":{` + metricsJSON + `},"register_delta":-1,"spill_delta":2,` +
		`"local_memory_delta":0,"instruction_delta":0,"is_regression":true}`
)

func TestEncodeV1(t *testing.T) {
	result := V1ValidationResult{Seed: math.MaxUint64, OpName: "a<b", MaxDiff: 0.5, MaxRelDiff: F64(math.Inf(1)),
		Failures: []V1ValidationFailure{
			{V1ToleranceExceeded, "m", ptr(uint64(3)), ptr(F64(1)), ptr(F64(math.NaN()))},
			{Kind: V1ShapeMismatch},
		},
		Timestamp: 1, DurationMS: 2,
		ReproInfo: &V1ReproductionInfo{Seed: 4, Shape: Dims{2, 3}, Strides: []int64{3, 1}, DType: "float32",
			Layout: V1Contiguous, InputSnapshot: &[]byte{1, 2}},
		ErrorStats: &V1ErrorStats{Count: 6, NumExceeding: 1, MaxAbs: 1e-7, MaxULP: 9, MeanULP: 1.5}}
	lint := V1LintResult{"k", false, metrics, []V1LintViolation{
		{V1ExcessiveSpills, "m", ptr(uint32(1)), ptr(uint32(0))}, {Kind: V1MissingRequiredPattern, Message: "m"}}, 6}
	diff := V1ArtifactDiff{KernelName: "k", Current: metrics, RegisterDelta: -1, SpillDelta: 2, IsRegression: true}
	testCase := V1TestCaseData{5, map[string]TensorData{"x": scalar}, Dims{2}, "float32", "contiguous"}
	const caseJSON = `"seed":5,"inputs":{"x":` + scalarJSON + `},"shape":[2],"dtype":"float32","layout":"contiguous"`
	for _, tt := range []struct {
		in   V1Reply
		want string
	}{
		{V1Ok{}, `{"type":"Ok"}`},
		{V1Pong{"0.1.0", V1Protocol, 3}, `{"type":"Pong","version":"0.1.0","protocol_version":1,"uptime_secs":3}`},
		{V1Error{V1NotFound, "no <x> & é"}, `{"type":"Error","code":"NotFound","message":"no <x> & é"}`},
		{V1ValidationResultReply{result}, `{"type":"ValidationResult","result":` + resultJSON + `}`},
		{V1ValidationResultReply{}, `{"type":"ValidationResult","result":` + emptyResultJSON + `}`},
		{V1SubmitResult{result}, `{"type":"SubmitResult","result":` + resultJSON + `}`},
		{V1Results{}, `{"type":"Results","results":[]}`},
		{V1Results{[]V1ValidationResult{{}, result}},
			`{"type":"Results","results":[` + emptyResultJSON + `,` + resultJSON + `]}`},
		{V1BaselineComparisonReply{"t", []V1BaselineComparison{{OpName: "a", Seed: 1, CurrentMaxDiff: 2},
			{"b", 2, 0, ptr(F64(1e16)), true, ptr(true), ptr(F64(-0.25)), true}}, true},
			`{"type":"BaselineComparison","baseline_tag":"t","comparisons":[{"op_name":"a","seed":1,"current_max_diff":2.0,` +
				`"baseline_max_diff":null,"current_passed":false,"baseline_passed":null,"relative_change":null,` +
				`"is_regression":false},{"op_name":"b","seed":2,"current_max_diff":0.0,"baseline_max_diff":1e+16,` +
				`"current_passed":true,"baseline_passed":true,"relative_change":-0.25,"is_regression":true}],` +
				`"has_regressions":true}`},
		{V1FuzzResults{Seed: math.MaxUint64, Total: 3, Passed: 2, Failed: 1},
			`{"type":"FuzzResults","seed":18446744073709551615,"total":3,"passed":2,"failed":1,"failures":[]}`},
		{V1ReproduceResult{Inputs: map[string]TensorData{"x": {DType: "float32"}}}, `{"type":"ReproduceResult","result":` +
			emptyResultJSON + `,"inputs":{"x":{"shape":[],"strides":[],"dtype":"float32","data":""}}}`},
		{V1MinimizeResult{1, 2, Dims{1, 0}, V1ValidationResult{}}, `{"type":"MinimizeResult","original_seed":1,` +
			`"minimized_seed":2,"minimized_shape":[1,0],"result":` + emptyResultJSON + `}`},
		{V1LintResults{[]V1LintResult{lint}}, `{"type":"LintResults","results":[` + lintJSON + `]}`},
		{V1ArtifactDiffs{"t", []V1ArtifactDiff{diff}, true},
			`{"type":"ArtifactDiffs","baseline_tag":"t","diffs":[` + diffJSON + `],"has_regressions":true}`},
		{V1ArtifactMetricsResult{metrics}, `{"type":"ArtifactMetricsResult",` + metricsJSON + `}`},
		{V1ArtifactList{[]V1ArtifactMetrics{metrics}}, `{"type":"ArtifactList","artifacts":[{` + metricsJSON + `}]}`},
		{V1CiRunComplete{V1CiRunSummary{2, 1, 1, 0, 9, 8, []V1ValidationResult{result}, []V1LintResult{lint},
			&V1ArtifactDiffSummary{"t", true, nil}}}, `{"type":"CiRunComplete","total_tests":2,"passed":1,"failed":1,` +
			`"skipped":0,"duration_ms":9,"timestamp":8,"validation_results":[` + resultJSON + `],"lint_results":[` + lintJSON +
			`],"artifact_diffs":{"baseline_tag":"t","has_regressions":true,"diffs":[]}}`},
		{V1TestCase{testCase}, `{"type":"TestCase",` + caseJSON + `}`},
		{V1TestBatch{[]V1TestCaseData{testCase}}, `{"type":"TestBatch","cases":[{` + caseJSON + `}]}`},
	} {
		got, err := EncodeV1(tt.in)
		if err != nil || string(got) != tt.want {
			t.Errorf("EncodeV1(%T) =\n%s (%v), want\n%s", tt.in, got, err, tt.want)
		}
	}
}

func TestF64(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.1: "0.1", 1e-5: "0.00001", 9e-6: "9e-06", 5e-324: "5e-324", 1e15: "1000000000000000.0",
		math.MaxFloat64: "1.7976931348623157e+308", math.Inf(-1): "null",
	} {
		if got, err := json.Marshal(F64(in)); err != nil || string(got) != want {
			t.Errorf("Marshal(%v) = %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestTensorData(t *testing.T) {
	for _, tt := range []struct {
		name    string
		shape   []int64
		dtype   string
		bytes   int
		strides []int64
		err     string
	}{
		{"scalar", nil, "float64", 8, []int64{}, ""},
		{"matrix", []int64{2, 3}, "bfloat16", 12, []int64{3, 1}, ""},
		{"empty", []int64{2, 0, 3}, "bool", 0, []int64{3, 3, 1}, ""},
		{"short", []int64{2, 3}, "float32", 23, nil, "23 bytes of data, want 24 for float32 of shape [2 3]"},
		{"not empty", []int64{0}, "float32", 4, nil, "4 bytes of data, want 0 for float32 of shape [0]"},
		{"unknown dtype", []int64{1}, "complex64", 8, nil, `unknown dtype "complex64"`},
		{"negative", []int64{-1, -1}, "int8", 1, nil, "shape [-1 -1] has a negative dimension"},
		{"overflow", []int64{1 << 62, 4, 0}, "int8", 0, nil, "shape [4611686018427387904 4 0] is too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewTensorData(tt.shape, tt.dtype, make([]byte, tt.bytes))
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("NewTensorData = %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got.Strides, tt.strides) {
				t.Errorf("NewTensorData = strides %v, %v, want %v", got.Strides, err, tt.strides)
			}
		})
	}
}

// FuzzDecodeV1: no input panics, what is accepted is JSON, and its tensors survive a round trip.
func FuzzDecodeV1(f *testing.F) {
	f.Add([]byte(`{"type":"FuzzOp","op_name":"a","fuzz_config":` + fuzzJSON + `,"iterations":9,"fail_fast":true}`))
	f.Add([]byte(`{"type":"SubmitOutput","op_name":"a","inputs":{"x":` + scalarJSON + `},"output":` + scalarJSON +
		`,"seed":7,"kwargs":{"a":"b"}}`))
	f.Add([]byte(`{"type":"StoreArtifact","kernel_name":"z","metrics":{` + metricsJSON + `}}`))
	f.Add([]byte(`{"type":"Ping","x":{"a":[1,"\\\"",null]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		req, err := DecodeV1(in)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "Invalid request: JSON error: ") {
				t.Errorf("DecodeV1(%q) = %v", in, err)
			}
			return
		}
		if !json.Valid(in) {
			t.Errorf("DecodeV1(%q) accepts what is not JSON", in)
		}
		submit, ok := req.(V1SubmitOutput)
		if !ok {
			return
		}
		out, err := EncodeV1(V1ReproduceResult{Inputs: submit.Inputs})
		if err != nil {
			t.Fatal(err)
		}
		var back V1ReproduceResult
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !reflect.DeepEqual(back.Inputs, submit.Inputs) {
			t.Errorf("inputs %+v come back as %+v", submit.Inputs, back.Inputs)
		}
	})
}

func BenchmarkDecodeV1(b *testing.B) {
	data := base64.StdEncoding.EncodeToString(make([]byte, 16<<20))
	in := []byte(`{"type":"ValidateOp","op_name":"a","inputs":{},"output":{"shape":[1],"strides":[1],` +
		`"dtype":"float32","data":"` + data + `"},"kwargs":{}}`)
	b.SetBytes(16 << 20)
	for b.Loop() {
		if _, err := DecodeV1(in); err != nil {
			b.Fatal(err)
		}
	}
}
