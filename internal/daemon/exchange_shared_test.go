package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// The same cases come in the answer and in a shared file, which they fill from its beginning.
func TestHandOutShared(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]*Client{"socket": f.listening(t), "in process": f.local()} {
		req := &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 5, Start: 3, Count: 9}
		inline := handedOut(t, c, req)
		req.Shared = sharedFileOf(t)
		if err := os.WriteFile(req.Shared, bytes.Repeat([]byte("x"), 100), 0o600); err != nil { // of a batch before
			t.Fatal(err)
		}
		shared := handedOut(t, c, req)
		if len(inline) != 9 || len(shared) != 9 {
			t.Fatalf("%s: %d and %d cases, want 9", name, len(inline), len(shared))
		}
		end := int64(0)
		for i, h := range shared {
			if h.Bytes[0]%imageAlign != 0 || h.Bytes[0] < end || h.Bytes[0] >= end+imageAlign {
				t.Errorf("%s: case %d lies at %v, the one before ends at %d", name, i, h.Bytes, end)
			}
			end = h.Bytes[1]
			h.Bytes = nil
			if !reflect.DeepEqual(h, inline[i]) {
				t.Errorf("%s: case %d differs:\n%+v\n%+v", name, i, h, inline[i])
			}
		}
	}
}

// Small images are gathered and written together, large ones by themselves. What cannot be written is told of the first
// case that is not there; the cases before an error are all handed out.
func TestHandOutGathers(t *testing.T) {
	file := sharedFileOf(t)
	open := func() *sharedFile {
		f, err := openShared(t.Context(), file, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	storage := func(n int) []tensor.Named {
		x := tensor.New(dtype.Uint8, tensor.Shape{n})
		for i := range x.Data {
			x.Data[i] = byte(n + i)
		}
		return []tensor.Named{{Name: "x", Tensor: x}}
	}
	sizes := []int{10, 0, maxGathered - 1000, 2000, maxGathered, maxGathered + 1, 3, maxGathered + 7, maxGathered / 2, 5}
	var answer bytes.Buffer
	out := &handOut{w: bufio.NewWriter(&answer), shared: open()}
	for i, n := range sizes {
		if err := out.put(&wire.CaseHeader{Index: i}, storage(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.refuse(len(sizes), errors.New("no more")); err != nil || !out.ended {
		t.Fatalf("refuse = %v, ended %v", err, out.ended)
	}
	for i, n := range sizes {
		h := nextCase(t, &answer)
		image, err := readFile(file, h.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := tensor.ParseSafetensors(image)
		if err != nil || h.Index != i || !reflect.DeepEqual(got, storage(n)) {
			t.Errorf("case %d of %d bytes came as case %d at %v: %v", i, n, h.Index, h.Bytes, err)
		}
	}
	if h := nextCase(t, &answer); h.Error == nil || h.Index != len(sizes) {
		t.Errorf("the last part is %+v, want the error of case %d", h, len(sizes))
	}

	answer.Reset()
	out = &handOut{w: bufio.NewWriter(&answer), shared: open()}
	for i := range 3 {
		if i == 1 {
			out.shared.Close()
		}
		if err := out.put(&wire.CaseHeader{Index: 7 + i}, storage(maxGathered/2+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.end(); err != nil {
		t.Fatal(err)
	}
	if h := nextCase(t, &answer); h.Index != 7 || h.Error == nil || h.Error.Code != string(BadShared) {
		t.Errorf("the first part is %+v, want the error of case 7", h)
	}
	if answer.Len() > 0 {
		t.Errorf("%d bytes follow the error", answer.Len())
	}
}

// nextCase reads a part without an image. That of an error has not even its length.
func nextCase(t *testing.T, r io.Reader) *wire.CaseHeader {
	t.Helper()
	text, err := readHeader(r)
	if err != nil {
		t.Fatal(err)
	}
	h := &wire.CaseHeader{}
	if err := json.Unmarshal(text, h); err != nil {
		t.Fatal(err)
	}
	if h.Error == nil {
		if image, err := readImage(r, func(int64) error { return nil }); err != nil || len(image) > 0 {
			t.Fatalf("an image of %d bytes, %v", len(image), err)
		}
	}
	return h
}

// What says which cases there are: attributes, a text, a number of bytes.
func TestHandOutSelects(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	list := handedOut(t, c, &wire.CasesRequest{Op: "leaky_relu", Seed: 1, Count: 8,
		Attrs: map[string]string{"alpha": "2"}})
	for _, h := range list {
		if string(h.Attrs) != `{"alpha":2.0,"math":"gpu"}` || !strings.Contains(h.Case, "alpha:2") {
			t.Errorf("attributes %s of %s", h.Attrs, h.Case)
		}
		if len(h.Outputs) != 1 || h.Outputs[0].DType != h.DType || !reflect.DeepEqual(h.Outputs[0].Shape, h.Inputs[0].Shape) {
			t.Errorf("outputs %+v of %s", h.Outputs, h.Case)
		}
	}
	one := handedOut(t, c, &wire.CasesRequest{Case: list[3].Case})
	list[3].Index = 0
	if len(one) != 1 || !reflect.DeepEqual(one[0], list[3]) {
		t.Errorf("the case of a text is %+v, want %+v", one, list[3])
	}
	whole := handedOut(t, c, &wire.CasesRequest{Op: "relu", Seed: 1, Count: 8, Shared: sharedFileOf(t)})
	limit := whole[2].Bytes[1] - whole[2].Bytes[0] + whole[1].Bytes[1] - whole[1].Bytes[0] + whole[0].Bytes[1]
	for bytes, want := range map[int64]int{limit: 3, limit + 1: 4, 1: 1} {
		if got := handedOut(t, c, &wire.CasesRequest{Op: "relu", Seed: 1, Count: 8, MaxBytes: bytes}); len(got) != want {
			t.Errorf("max_bytes %d: %d cases, want %d", bytes, len(got), want)
		}
	}
	for _, bad := range []struct {
		req  wire.CasesRequest
		code diag.Code
	}{
		{wire.CasesRequest{Op: "relu", Count: 1, MaxBytes: -1}, BadRequest},
		{wire.CasesRequest{Case: list[0].Case, Count: 2}, BadRequest},
		{wire.CasesRequest{Case: list[0].Case, Attrs: map[string]string{"alpha": "2"}}, BadRequest},
		{wire.CasesRequest{Case: list[0].Case, Op: "relu"}, campaign.BadOptions},
		{wire.CasesRequest{Case: "nonsense"}, opspec.CaseSyntax},
		{wire.CasesRequest{Op: "relu", Count: 1, Attrs: map[string]string{"axes": "0"}}, campaign.UnknownAttr},
		{wire.CasesRequest{Op: "leaky_relu", Count: 1, Attrs: map[string]string{"alpha": "first"}}, opspec.AttrInvalid},
	} {
		_, err := askCases(t, c, &bad.req)
		wantCode(t, err, bad.code)
	}
}

// Files that are not the user's alone are refused, in both directions.
func TestSharedFilesRefused(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	dir := filepath.Clean(os.TempDir())
	unique := sharedFileOf(t) + "-"
	path := func(name string) string {
		t.Cleanup(func() { os.Remove(unique + name) })
		return unique + name
	}
	mode := func(name string, m os.FileMode) string {
		err := os.WriteFile(path(name), []byte("x"), 0o600)
		if err == nil {
			err = os.Chmod(path(name), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	elsewhere := filepath.Join(t.TempDir(), sharedPrefix+"x")
	other := filepath.Join(t.TempDir(), "x")
	for _, file := range []string{elsewhere, other} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(other, path("second name")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mode("own", 0o600), path("link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := "/etc/passwd"
	if os.Geteuid() == 0 {
		foreign = mode("foreign", 0o600)
		if err := os.Chown(foreign, 65534, -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path("directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"link": path("link"), "pipe": path("pipe"), "directory": path("directory"), "nothing": path("nothing"),
		"relative": filepath.Base(path("own")), "device": "/dev/null", "foreign": foreign,
		"writable by others": mode("open", 0o622), "second name": path("second name"), "another file": other,
		"another directory": elsewhere, "outside": dir + "/" + sharedPrefix + "/.." + other[len(dir):],
		"up": dir + "/" + sharedPrefix + "/../" + filepath.Base(path("own")), "the directories": dir, "empty name": dir + "/",
	} {
		_, err := askCases(t, c, &wire.CasesRequest{Op: "relu", Count: 1, Shared: bad})
		if diag.CodeOf(err) != BadShared {
			t.Errorf("cases into %s: %v", name, err)
		}
		var out submissions
		out.add(t, &wire.SubmitHeader{Op: "relu", Shared: bad, Bytes: []int64{0, 1}})
		list, err := trySubmit(t, c, out.body(t))
		if err != nil || len(list) != 1 || list[0].Error == nil || list[0].Error.Code != string(BadShared) {
			t.Errorf("submission from %s: %+v, %v", name, list, err)
		}
	}
	for _, file := range []string{path("own"), other, elsewhere} {
		if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
			t.Errorf("%s has %q, %v", file, text, err)
		}
	}
}

// Over TCP no file is shared, with a valid token neither.
func TestNothingSharedOverTCP(t *testing.T) {
	f := newFixture(t)
	token := strings.Repeat("t", minToken)
	shared := sharedFileOf(t)
	text, err := json.Marshal(wire.CasesRequest{Op: "relu", Count: 1, Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []struct {
		handler http.Handler
		status  int
	}{{withToken(token, f.Handler()), http.StatusBadRequest}, {f.Handler(), http.StatusOK}} {
		r := httptest.NewRequest("POST", "/v1/cases", bytes.NewReader(text))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		if w.Code != h.status || h.status != http.StatusOK && !strings.Contains(w.Body.String(), string(BadShared)) {
			t.Errorf("status %d, want %d: %s", w.Code, h.status, w.Body)
		}
	}
}

// A part whose bytes are not there, or are another's, does not keep the others from being judged.
func TestBytesOfSharedFiles(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	cases := handedOut(t, c, &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 5, Count: 3})
	out := &submissions{shared: sharedFileOf(t)}
	for i, h := range cases {
		header := &wire.SubmitHeader{Case: h.Case}
		if i == 0 {
			header.Config = f.config
		}
		out.add(t, header, tensor.Named{Name: "outputs/output", Tensor: relu(h.inputs[0].Tensor)})
	}
	size := int64(len(out.file))
	bad := []struct {
		bytes  []int64
		shared string
		code   diag.Code
	}{
		{[]int64{size, size + 1}, out.shared, BadShared},
		{[]int64{1 << 62, 1<<62 + 1}, out.shared, BadShared},
		{[]int64{0, 10}, out.shared, BadRequest}, // the first part's
		{[]int64{size - 1, size}, out.shared, BadRequest},
		{[]int64{-1, 10}, out.shared, BadRequest},
		{[]int64{10, 9}, out.shared, BadRequest},
		{[]int64{10}, out.shared, BadRequest},
		{nil, out.shared, BadRequest},
		{[]int64{0, 10}, "", BadRequest},
		{[]int64{0, maxTensors + 1}, out.shared, TooLarge},
	}
	for _, b := range bad {
		out.add(t, &wire.SubmitHeader{Case: cases[0].Case, Shared: b.shared, Bytes: b.bytes})
	}
	text, err := json.Marshal(wire.SubmitHeader{Case: cases[0].Case, Shared: out.shared, Bytes: []int64{0, 10}})
	if err != nil {
		t.Fatal(err)
	}
	out.raw(text, []byte("an image as well"))
	results := submitAll(t, c, out.body(t))
	if len(results) != len(cases)+len(bad)+1 {
		t.Fatalf("%d results", len(results))
	}
	for i := range cases {
		if !passed(results[i]) {
			t.Errorf("part %d: %s %+v", i, results[i].Result, results[i].Error)
		}
	}
	for i, b := range bad {
		if e := results[len(cases)+i].Error; e == nil || e.Code != string(b.code) || results[len(cases)+i].Result != nil {
			t.Errorf("bytes %v: %+v, want %s", b.bytes, results[len(cases)+i], b.code)
		}
	}
	if e := results[len(results)-1].Error; e == nil || e.Code != string(BadRequest) {
		t.Errorf("image and bytes: %+v", results[len(results)-1])
	}
	if f.held != 0 {
		t.Errorf("%d bytes are held after all submissions", f.held)
	}
}

// A client that goes away takes its cases with it.
func TestGivenUpHandOut(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := f.local().Cases(ctx, &wire.CasesRequest{Op: "relu", Seed: 1, Count: maxHandOut},
		func(*wire.CaseHeader, []tensor.Named) error {
			if n++; n == 20 {
				cancel()
			}
			return nil
		})
	if err == nil {
		t.Fatal("a cancelled hand-out came to its end")
	}
	if err := f.Close(); err != nil { // waits for the handler
		t.Fatal(err)
	}
}
