//go:build unix

package runner

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// TestProgramWorker runs the example of docs/formats/worker-v1.md.
func TestProgramWorker(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "my worker"), "./testdata/goworker").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	r := newRunner(t, Spec{Dir: dir, Target: "worker:'./my worker' unused"})
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2, 3), []float64{-1, 2, -3, 4, -5, 6})
	transposed, err := x.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reply := mustRun(t, r, callOf(transposed))
		wantFloats(t, reply, 0, 4, 2, 0, 0, 6)
		if reply.Modified != nil {
			t.Errorf("Modified = %v, want nil: this worker does not say", reply.Modified)
		}
	}
	fails(t, r, callOf(tensorOf(t, dtype.Int8, 3)), verdict.Unsupported, "goworker knows float32 only")
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
}

// TestProgramThatIsNone: a program that knows nothing of the protocol is said to be one.
func TestProgramThatIsNone(t *testing.T) {
	fails(t, newRunner(t, Spec{Target: "worker:true"}), small(t), verdict.Raised,
		"exited with status 0 instead of replying")
	fails(t, newRunner(t, Spec{Target: `worker:sh -c 'printf "\001\0\0\0x" >&4; cat <&3'`}), small(t), verdict.BadReply,
		"header is not JSON of a reply")
	dir := t.TempDir()
	file(t, dir, "notexec", "neither a binary nor a script\x00\x01", 0o700)
	fails(t, newRunner(t, Spec{Dir: dir, Target: "worker:./notexec"}), small(t), verdict.NotStarted, "cannot be started")
}

func TestOtherVersion(t *testing.T) {
	reply := `{\"ok\":true,\"version\":2,\"id\":1}`
	r := newRunner(t, Spec{Target: `worker:sh -c 'printf "\036\0\0\0` + reply + `" >&4; cat <&3'`})
	fails(t, r, small(t), verdict.NotStarted, "speaks version 2 of the protocol, want 1")
}

// TestExampleIsTheOneOfTheDocs: the page shows the program that is tested.
func TestExampleIsTheOneOfTheDocs(t *testing.T) {
	source, err := os.ReadFile("testdata/goworker/main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "formats", "worker-v1.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, append([]byte("```go\n"), append(source, "```\n"...)...)) {
		t.Error("docs/formats/worker-v1.md does not show testdata/goworker/main.go as it is")
	}
}
