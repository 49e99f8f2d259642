package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/emulation"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// doubles stores 2·x[i] + s to y[i] for i below n.
const doubles = `.version 8.0
.target sm_80
.address_size 64
.visible .entry doubles(.param .u64 x, .param .u64 y, .param .f32 s, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<3>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.f32 %f1, [s];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ge.u32 %p1, %r2, %r1;
	@%p1 bra done;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f2, [%rd4];
	add.f32 %f3, %f2, %f2;
	add.f32 %f4, %f3, %f1;
	st.global.f32 [%rd5], %f4;
done:
	ret;
}
.visible .entry spin()
{
again:
	bra again;
}
.visible .entry strange(.param .u64 x)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [x];
	stackrestore.u64 %rd1;
	ret;
}
`

// launchOf is a launch of doubles on the storage x, with an output of its own.
func launchOf(n string) *wire.EmulateHeader {
	text := doubles
	return &wire.EmulateHeader{PTX: &text, Entry: "doubles", Grid: []int{1}, Block: []int{32}, Args: []wire.EmulateArg{
		{Kind: "tensor", Name: "x", DType: "float32", Role: "in", Storage: "x"},
		{Kind: "tensor", Name: "y", DType: "float32", Role: "out", Shape: []int64{3}},
		{Kind: "scalar", DType: "float32", Value: "0.5"}, {Kind: "scalar", DType: "uint32", Value: n},
	}}
}

// emulated asks for a launch.
func emulated(ctx context.Context, t testing.TB, c *Client, h *wire.EmulateHeader, tensors ...tensor.Named) (
	*emulation.Document, map[string]*tensor.Tensor, error,
) {
	t.Helper()
	var body bytes.Buffer
	if h.Shared == "" {
		if err := writePart(&body, h, tensors); err != nil {
			t.Fatal(err)
		}
	} else {
		image, err := tensor.AppendSafetensors(nil, tensors)
		if err == nil {
			err = os.WriteFile(h.Shared, append(make([]byte, 64), image...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.Bytes = []int64{64, int64(64 + len(image))}
		head, _, err := partHead(h, nil)
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint64(head[len(head)-8:], 0)
		body.Write(head)
	}
	resp, err := c.sendBody(ctx, http.MethodPost, "/v1/emulate", launchType, &body)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := readHeader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var reply wire.EmulateReply
	doc := new(emulation.Document)
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(reply.Emulation, doc); err != nil {
		t.Fatal(err)
	}
	image, err := readImage(resp.Body, func(int64) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if reply.Bytes != nil {
		if image, err = readFile(h.Shared, reply.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := io.Copy(io.Discard, resp.Body); n != 0 {
		t.Errorf("%d bytes follow the image", n)
	}
	outputs := map[string]*tensor.Tensor{}
	if len(image) > 0 {
		list, _, err := tensor.ParseSafetensors(image)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			outputs[x.Name] = x.Tensor
		}
	}
	return doc, outputs, nil
}

// TestEmulate: launches with memory of their own, with shared storages, over the socket and by a shared file.
func TestEmulate(t *testing.T) {
	c := newFixture(t).listening(t)
	x := floats("x", dtype.Float32, 1, 2, 3)
	doc, out, err := emulated(t.Context(), t, c, launchOf("3"), x)
	if err != nil {
		t.Fatal(err)
	}
	y := tensor.FromFloat64s(dtype.Float32, tensor.Shape{3}, []float64{2.5, 4.5, 6.5})
	if doc.Status != "passed" || doc.PTX != "kernel.ptx" || len(out) != 1 || !bytes.Equal(out["y"].Data, y.Data) {
		t.Errorf("%+v, outputs %v", doc, out)
	}
	h := launchOf("3")
	h.Shared = sharedFileOf(t)
	if _, out, err = emulated(t.Context(), t, c, h, x); err != nil || !bytes.Equal(out["y"].Data, y.Data) {
		t.Errorf("by a shared file: %v, %v", out, err)
	}

	// In place: the second half of a storage is the first half doubled. One more is outside of it.
	h = launchOf("2")
	h.Counters, h.Schedules, h.Name, h.Checks = true, 3, "mine.ptx", "bounds,race"
	h.SFU, h.Contract = "worst+", true
	h.Args[1] = wire.EmulateArg{Kind: "tensor", Name: "y", DType: "float32", Role: "out", Storage: "x", Offset: 8}
	four := floats("x", dtype.Float32, 1, 2, 3, 4)
	doc, out, err = emulated(t.Context(), t, c, h, four)
	if err != nil || doc.Status != "passed" || doc.Counters == nil || doc.Schedules != 3 || len(doc.Checks) != 2 ||
		doc.SFU != "worst+" || !doc.Contract {
		t.Errorf("%+v, %v", doc, err)
	}
	want := tensor.FromFloat64s(dtype.Float32, tensor.Shape{4}, []float64{1, 2, 2.5, 4.5})
	if len(out) != 1 || !bytes.Equal(out["x"].Data, want.Data) {
		t.Errorf("outputs %v, want %v", out, want)
	}
	h.Args[3].Value = "3"
	doc, _, err = emulated(t.Context(), t, c, h, four)
	if err != nil || doc.Status != "failed" || doc.Findings[0].Class != "oob_write" || doc.PTX != "mine.ptx" {
		t.Errorf("%+v, %v", doc, err)
	}
	// Parts of a storage: what lies between is outside.
	h.Args[3].Value, h.Args[0].Valid = "2", [][]int64{{2, 2}, {0, 1}}
	doc, _, err = emulated(t.Context(), t, c, h, four)
	if err != nil || doc.Status != "failed" || doc.Findings[0].Class != "oob_read" || doc.Findings[0].Thread[0] != 1 {
		t.Errorf("%+v, %v", doc, err)
	}
	// Scalars without a dtype have that of their parameters.
	h = launchOf("3")
	h.Args[2], h.Args[3] = wire.EmulateArg{Kind: "scalar", Value: "-1"}, wire.EmulateArg{Kind: "scalar", Value: "3"}
	minus := tensor.FromFloat64s(dtype.Float32, tensor.Shape{3}, []float64{1, 3, 5})
	if _, out, err = emulated(t.Context(), t, c, h, x); err != nil || !bytes.Equal(out["y"].Data, minus.Data) {
		t.Errorf("scalars by their parameters: %v, %v", out, err)
	}
	// A storage that begins at an odd address: nothing in it is aligned.
	h = launchOf("1")
	h.Args[0].Address = 2
	if doc, _, err = emulated(t.Context(), t, c, h, x); err != nil || doc.Findings[0].Class != "misaligned" {
		t.Errorf("%+v, %v", doc, err)
	}

	// A file, and kernels that are not executed.
	path := filepath.Join(t.TempDir(), "k.ptx")
	if err := os.WriteFile(path, []byte(doubles), 0o600); err != nil {
		t.Fatal(err)
	}
	for entry, code := range map[string]string{"spin": "ptxvm-budget", "strange": "ptxvm-unsupported"} {
		h := &wire.EmulateHeader{File: path, Entry: entry, Grid: []int{1}, Block: []int{1}, Budget: 1000}
		if entry == "strange" {
			h.Args = []wire.EmulateArg{{Kind: "tensor", Name: "y", DType: "int8", Role: "out", Shape: []int64{128}}}
		}
		doc, out, err := emulated(t.Context(), t, c, h)
		if err != nil || doc.Status != "not_run" || doc.Error.Code != code || doc.PTX != path || len(out) != 0 {
			t.Errorf("%s: %+v, %v, want %s", entry, doc, err, code)
		}
	}
}

// TestEmulateLeavesOut: storages that the kernel did not write to do not come back, whatever it was allowed to.
func TestEmulateLeavesOut(t *testing.T) {
	c := newFixture(t).listening(t)
	for _, shared := range []string{"", sharedFileOf(t)} {
		for n, want := range map[string][]string{"3": {"y"}, "0": nil} {
			h := launchOf(n)
			h.Shared, h.Args[0].Role = shared, "inout"
			h.Args[1] = wire.EmulateArg{Kind: "tensor", Name: "y", DType: "float32", Role: "inout", Storage: "y"}
			_, out, err := emulated(t.Context(), t, c, h, floats("x", dtype.Float32, 1, 2, 3),
				floats("y", dtype.Float32, 0, 0, 0))
			if got := slices.Collect(maps.Keys(out)); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s elements: %v come back, want %v; %v", n, got, want, err)
			}
		}
	}
}

// TestEmulateAgain: a kernel is made ready once, and one that differs in anything is another one.
func TestEmulateAgain(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	x := floats("x", dtype.Float32, 1, 2, 3)
	var made []*ptxvm.Program
	for range 2 {
		for _, change := range []func(h *wire.EmulateHeader){
			func(*wire.EmulateHeader) {},
			func(h *wire.EmulateHeader) { h.Name = "other.ptx" },
			func(h *wire.EmulateHeader) { h.Arch = "sm_90" },
			func(h *wire.EmulateHeader) { h.SFU = "worst+" },
			func(h *wire.EmulateHeader) { h.Contract = true },
			func(h *wire.EmulateHeader) { *h.PTX += "\n" },
			func(h *wire.EmulateHeader) { h.Entry = "spin"; h.Args = nil; h.Budget = 10 },
		} {
			h := launchOf("3")
			change(h)
			doc, _, err := emulated(t.Context(), t, c, h, x)
			if err != nil || h.Name != "" && doc.PTX != h.Name || h.Arch != "" && doc.Target != h.Arch ||
				doc.SFU != h.SFU || doc.Contract != h.Contract && h.Entry == "doubles" {
				t.Fatalf("%+v, %v", doc, err)
			}
		}
		f.kernels.mu.Lock()
		list := slices.Collect(maps.Values(f.kernels.kept))
		f.kernels.mu.Unlock()
		if len(list) != 7 {
			t.Fatalf("%d programs are kept, want 7", len(list))
		}
		for _, p := range list {
			if made != nil && !slices.Contains(made, p) {
				t.Errorf("%s was made twice", p.Kernel.Name)
			}
		}
		made = list
	}
	// However many kernels there are, few are kept, and none with a long text.
	text := doubles
	for i := range maxPrograms {
		text += "\n"
		if i == maxPrograms-1 {
			text += strings.Repeat("\n", maxProgramText)
		}
		h := launchOf("3")
		h.PTX = &text
		if _, _, err := emulated(t.Context(), t, c, h, x); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.kernels.kept); n > maxPrograms {
		t.Errorf("%d programs are kept, want at most %d", n, maxPrograms)
	}
	for key := range f.kernels.kept {
		if len(key.text) > maxProgramText {
			t.Errorf("a program with a text of %d bytes is kept", len(key.text))
		}
	}
}

// TestEmulateGivesUp: a client that is gone needs no result, and a launch that does not end is ended.
func TestEmulateGivesUp(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	text := doubles
	h := &wire.EmulateHeader{PTX: &text, Entry: "spin", Grid: []int{1}, Block: []int{1}, Budget: 1 << 62}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := emulated(ctx, t, c, h)
		ended <- err
	}()
	for len(f.machines) == 0 { // the launch has not begun
		select {
		case err := <-ended:
			t.Fatalf("the launch ended by itself: %v", err)
		default:
			runtime.Gosched()
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a request that was given up has an answer")
	}
	for range cap(f.machines) {
		f.machines <- struct{}{} // all places are free again, or this waits for ever
	}
}

// TestEmulateRefuses: every kind of request that makes no sense has an error, and nothing stays behind.
func TestEmulateRefuses(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	x := floats("x", dtype.Float32, 1, 2, 3)
	empty := ""
	for name, tt := range map[string]struct {
		change func(h *wire.EmulateHeader)
		say    string
	}{
		"no module":    {func(h *wire.EmulateHeader) { h.PTX = nil }, "give the module as ptx or as file"},
		"two modules":  {func(h *wire.EmulateHeader) { h.File = "/k.ptx" }, "give the module as ptx or as file"},
		"empty module": {func(h *wire.EmulateHeader) { h.PTX = &empty }, "not PTX"},
		"relative":     {func(h *wire.EmulateHeader) { h.PTX, h.File = nil, "k.ptx" }, "want an absolute path"},
		"absent":       {func(h *wire.EmulateHeader) { h.PTX, h.File = nil, "/nonexistent/k.ptx" }, "no such file"},
		"entry":        {func(h *wire.EmulateHeader) { h.Entry = "other" }, "no kernel other"},
		"no grid":      {func(h *wire.EmulateHeader) { h.Grid = nil }, "grid has 0 numbers"},
		"grid":         {func(h *wire.EmulateHeader) { h.Grid = []int{1, 1 << 20} }, "y is from 1 to 65535"},
		"block":        {func(h *wire.EmulateHeader) { h.Block = []int{0} }, "x is from 1 to 1024"},
		"shared":       {func(h *wire.EmulateHeader) { h.DynamicShared = 1<<30 + 1 }, "dynamic shared memory"},
		"schedules":    {func(h *wire.EmulateHeader) { h.Schedules = 10001 }, "schedules is 10001"},
		"checks":       {func(h *wire.EmulateHeader) { h.Checks = "all,more" }, `no check "all"`},
		"arch":         {func(h *wire.EmulateHeader) { h.Arch = "volta" }, "sm_90a and the like"},
		"sfu":          {func(h *wire.EmulateHeader) { h.SFU = "best" }, `sfu is "best"`},
		"too many":     {func(h *wire.EmulateHeader) { h.Args = make([]wire.EmulateArg, 5000) }, "at most 4096"},
		"too few":      {func(h *wire.EmulateHeader) { h.Args = h.Args[:3] }, "3 arguments are given"},
		"kind":         {func(h *wire.EmulateHeader) { h.Args[0].Kind = "array" }, `args[0]: kind is "array"`},
		"dtype":        {func(h *wire.EmulateHeader) { h.Args[1].DType = "f31" }, `args[1]: dtype "f31"`},
		"value":        {func(h *wire.EmulateHeader) { h.Args[3].Value = "-1" }, "args[3]: "},
		"fraction": {func(h *wire.EmulateHeader) { h.Args[3] = wire.EmulateArg{Kind: "scalar", Value: "1.5"} },
			`args[3]: "1.5" is not a value of uint32`},
		"too large": {func(h *wire.EmulateHeader) {
			h.Args[3] = wire.EmulateArg{Kind: "scalar", Value: "4294967296"}
		}, "not a value of uint32"},
		"role":       {func(h *wire.EmulateHeader) { h.Args[0].Role = "" }, "args[0]: role"},
		"storage":    {func(h *wire.EmulateHeader) { h.Args[0].Storage = "z" }, `no tensor "z"`},
		"no storage": {func(h *wire.EmulateHeader) { h.Args[0].Storage = "" }, "a storage or"},
		"both":       {func(h *wire.EmulateHeader) { h.Args[0].Shape = []int64{3} }, "leave shape out"},
		"offset":     {func(h *wire.EmulateHeader) { h.Args[0].Offset = 13 }, "offset is 13, the storage has 12"},
		"negative":   {func(h *wire.EmulateHeader) { h.Args[0].Offset = -1 }, "offset is -1"},
		"an offset":  {func(h *wire.EmulateHeader) { h.Args[1].Offset = 4 }, "has no offset"},
		"address":    {func(h *wire.EmulateHeader) { h.Args[0].Address = 256 }, "address is 256"},
		"two addresses": {func(h *wire.EmulateHeader) {
			h.Args[1] = h.Args[0]
			h.Args[1].Address = 4
		}, "that of the same storage before is 0"},
		"valid": {func(h *wire.EmulateHeader) { h.Args[0].Valid = [][]int64{{0, 1}, {1, 3}} },
			"part 1 of valid is [1 3], want [first, count] in the 3 elements"},
		"negative part": {func(h *wire.EmulateHeader) { h.Args[0].Valid = [][]int64{{-1, 1}} }, "part 0 of valid"},
		"long part":     {func(h *wire.EmulateHeader) { h.Args[0].Valid = [][]int64{{0, 1, 2}} }, "part 0 of valid"},
		"part of none":  {func(h *wire.EmulateHeader) { h.Args[1].Valid = [][]int64{{0, 1}} }, "no parts that are valid"},
		"part of a second": {func(h *wire.EmulateHeader) {
			h.Args[1] = h.Args[0]
			h.Args[1].Valid = [][]int64{{0, 1}}
		}, "belong to its first tensor, x"},
		"shape":  {func(h *wire.EmulateHeader) { h.Args[1].Shape = []int64{-1} }, "args[1]: "},
		"amount": {func(h *wire.EmulateHeader) { h.Memory = "much" }, "no amount of memory"},
		"memory": {func(h *wire.EmulateHeader) { h.Args[1].Shape = []int64{1<<30 + 1} }, "at most 4294967296"},
		"named as another": {func(h *wire.EmulateHeader) { h.Args[1].Name = "x" },
			`called "x", as one of the image`},
		"named twice": {func(h *wire.EmulateHeader) {
			h.Args[0] = wire.EmulateArg{Kind: "tensor", Name: "y", DType: "float32", Role: "in", Shape: []int64{1}}
		}, `called "y", too`},
		"bytes":  {func(h *wire.EmulateHeader) { h.Bytes = []int64{0, 1} }, "without a shared file"},
		"twice":  {func(h *wire.EmulateHeader) { h.Shared, h.Bytes = "/x", []int64{0, 1} }, "an image is in the part"},
		"launch": {func(h *wire.EmulateHeader) { h.Args[3].DType = "uint64" }, "parameter n has 4"},
	} {
		h := launchOf("3")
		tt.change(h)
		resp, err := c.sendBody(t.Context(), http.MethodPost, "/v1/emulate", launchType,
			bytes.NewReader(onePartBody(t, h, x)))
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || diag.CodeOf(err) == "" || diag.CodeOf(err) == Internal || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want %q", name, err, tt.say)
		}
	}
	if f.held != 0 || len(f.machines) != 0 {
		t.Errorf("%d bytes and %d places are still taken", f.held, len(f.machines))
	}
}

// TestEmulateKeys: what nobody reads is refused, with the key that was meant.
func TestEmulateKeys(t *testing.T) {
	const start = `{"ptx": "x", "grid": [1], "block": [1], `
	for text, want := range map[string]struct{ say, hint string }{
		start + `"args": [], "check": "race"}`:     {`the header has the key "check"`, "did you mean checks?"},
		start + `"args": [], "dynamicShared": 64}`: {`"dynamicShared"`, "did you mean dynamic_shared or shared?"},
		start + `"args": [], "notes": 1}`:          {`"notes"`, "the keys are ptx, file, name, entry, grid, "},
		start + `"args": [{"kind": "scalar", "value": "1"}, {"kind": "tensor", "strides": [1]}]}`: {
			`args[1] has the key "strides"`, "storage"},
		start + `"args": [], "grid": "1"}`: {"the header is not a launch: json: ", emulateHint},
		start + `"args": 7, "what": 1}`:    {`"what"`, ""},
		start + `"args": []} {}`:           {"more than one launch", emulateHint},
		`[]`:                               {"the header is not a launch: json: ", emulateHint},
		``:                                 {"the header is not a launch: EOF", emulateHint},
	} {
		err := parseLaunch([]byte(text), new(wire.EmulateHeader))
		if diag.CodeOf(err) != BadRequest || !strings.Contains(err.Error(), want.say) ||
			!strings.Contains(diag.HintOf(err), want.hint) {
			t.Errorf("%s: %v (%s), want %q (%s)", text, err, diag.HintOf(err), want.say, want.hint)
		}
	}
	h := new(wire.EmulateHeader)
	if err := parseLaunch([]byte(start+`"args": [{"kind": "scalar", "Value": "1"}], "CHECKS": "all"} `), h); err != nil ||
		h.Checks != "all" || h.Args[0].Value != "1" {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestEmulateRemote: over TCP no file is read and nothing is compiled.
func TestEmulateRemote(t *testing.T) {
	f := newFixture(t)
	ask := func(path string, body []byte) string {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), remoteKey{}, true)))
		return w.Body.String()
	}
	h := launchOf("3")
	h.PTX, h.File = nil, "/etc/passwd"
	body := onePartBody(t, h, floats("x", dtype.Float32, 1, 2, 3))
	if got := ask("/v1/emulate", body); !strings.Contains(got, "over TCP") {
		t.Errorf("a file over TCP: %s", got)
	}
	if got := ask("/v1/compile", []byte(`{"source": ""}`)); !strings.Contains(got, "over TCP") {
		t.Errorf("a source over TCP: %s", got)
	}
}

// TestCompile: wrong requests are refused; what a compiler makes of a source is executed. There may be none here.
func TestCompile(t *testing.T) {
	c := newFixture(t).listening(t)
	source := "extern \"C\" __global__ void one(float *y) { y[threadIdx.x] = 1; }\n"
	for say, req := range map[string]wire.CompileRequest{
		"one of them":           {},
		"give the source":       {Source: &source, File: "/k.cu"},
		"want an absolute path": {File: "k.cu"},
		"want nvcc or clang":    {Source: &source, Compiler: "gcc"},
		"is no architecture":    {Source: &source, Arch: "gfx90a"},
		"no such file":          {File: "/nonexistent/k.cu"},
	} {
		_, err := call[wire.CompileReply](t.Context(), c, http.MethodPost, "/v1/compile", req)
		if err == nil || diag.CodeOf(err) == Internal || !strings.Contains(err.Error(), say) {
			t.Errorf("%+v: %v, want %q", req, err, say)
		}
	}
	reply, err := call[wire.CompileReply](t.Context(), c, http.MethodPost, "/v1/compile",
		wire.CompileRequest{Source: &source})
	if diag.CodeOf(err) == "cudatool-missing" {
		t.Skip("there is neither nvcc nor clang here")
	} else if err != nil {
		t.Fatal(err)
	}
	h := &wire.EmulateHeader{PTX: &reply.PTX, Grid: []int{1}, Block: []int{4}, Args: []wire.EmulateArg{
		{Kind: "tensor", Name: "y", DType: "float32", Role: "out", Shape: []int64{3}}}}
	doc, _, err := emulated(t.Context(), t, c, h)
	if err != nil || len(doc.Findings) != 1 || doc.Findings[0].Source != "kernel.cu" || doc.Findings[0].Line != 1 {
		t.Errorf("%+v, %v, want a finding in kernel.cu:1", doc, err)
	}
	testErf(t, c)
	broken := "__global__ void k() { undeclared(); }\n"
	_, err = call[wire.CompileReply](t.Context(), c, http.MethodPost, "/v1/compile", wire.CompileRequest{Source: &broken})
	if err == nil || !strings.Contains(err.Error(), "undeclared") || !strings.HasPrefix(err.Error(), "kernel.cu") {
		t.Errorf("a source that is wrong: %v", err)
	}
}

// testErf executes erff, which our header computes where CUDA's library is not installed.
func testErf(t *testing.T, c *Client) {
	t.Helper()
	source := "__global__ void k(const float *x, float *y) { y[threadIdx.x] = erff(x[threadIdx.x]); }\n"
	reply, err := call[wire.CompileReply](t.Context(), c, http.MethodPost, "/v1/compile",
		wire.CompileRequest{Source: &source})
	if err != nil {
		t.Fatal(err)
	}
	var list []float64
	for i := range 512 {
		list = append(list, float64(float32(i-256)/48))
	}
	list = append(list, math.NaN(), math.Inf(1), math.Inf(-1), 0x1p-120)
	n := int64(len(list))
	h := &wire.EmulateHeader{PTX: &reply.PTX, Grid: []int{1}, Block: []int{len(list)}, Args: []wire.EmulateArg{
		{Kind: "tensor", Name: "x", DType: "float32", Role: "in", Storage: "x"},
		{Kind: "tensor", Name: "y", DType: "float32", Role: "out", Shape: []int64{n}}}}
	doc, out, err := emulated(t.Context(), t, c, h, floats("x", dtype.Float32, list...))
	if err != nil || len(doc.Findings) > 0 || out["y"] == nil {
		t.Fatalf("erff: %+v, %d outputs, %v", doc, len(out), err)
	}
	for i, got := range out["y"].Float64s() {
		if want := math.Erf(list[i]); math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 4e-7*math.Abs(want) {
			t.Errorf("erff(%v) = %v, want %v", list[i], got, want)
		}
	}
}

// TestCompileWithout: a compiler that is asked for and not there is named.
func TestCompileWithout(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CUDA_HOME", "")
	t.Setenv("CUDA_PATH", "")
	if cudatool.Find(t.Context()).NVCC != nil {
		t.Skip("CUDA is installed here")
	}
	c, source := newFixture(t).listening(t), ""
	for _, name := range []string{"nvcc", "clang"} {
		_, err := call[wire.CompileReply](t.Context(), c, http.MethodPost, "/v1/compile",
			wire.CompileRequest{Source: &source, Compiler: name})
		if diag.CodeOf(err) != cudatool.Missing || !strings.Contains(err.Error(), ": "+name+" was not found") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzEmulate: whatever is sent, there is an answer, and nothing stays behind.
func FuzzEmulate(f *testing.F) {
	fx := newFixture(f)
	handler := fx.Handler()
	var body bytes.Buffer
	if err := writePart(&body, launchOf("3"), []tensor.Named{floats("x", dtype.Float32, 1, 2, 3)}); err != nil {
		f.Fatal(err)
	}
	f.Add(body.Bytes())
	f.Add(body.Bytes()[:len(body.Bytes())-5])
	f.Add([]byte{2, 0, 0, 0, '{', '}', 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		// A budget that is no one's wish: kernels that do not end are not what is looked for.
		b = bytes.ReplaceAll(b, []byte(`"entry"`), []byte(`"budget":9999,"entry"`))
		if n := len(b); n > 4 && n < 1<<20 && bytes.Contains(b, []byte(`"budget":9999,`)) {
			old := binary.LittleEndian.Uint32(b)
			binary.LittleEndian.PutUint32(b, old+uint32(len(`"budget":9999,`)))
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/emulate", bytes.NewReader(b)))
		if w.Code == http.StatusInternalServerError || fx.held != 0 || len(fx.machines) != 0 {
			t.Errorf("%d %s; %d bytes and %d places are taken", w.Code, w.Body, fx.held, len(fx.machines))
		}
	})
}
