package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/fingerprint"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
	"gpuemu/internal/tensor"
)

// What the scripts need beside gpu-proof itself.

// repoFiles is the repository of the scripts.
var repoFiles = map[string]string{
	"src/relu.py":        "def relu(x):\n    return max(x, 0)\n",
	"src/kernel.cu":      "__global__ void relu() {}\n",
	"tests/test_relu.py": "def test_relu():\n    pass\n\ndef test_big():\n    pass\n",
	"tests/test_sum.py":  "def test_sum():\n    pass\n",
	".gitignore":         "*.so\n",
	"README.md":          "a project\n",
}

// makeRepo makes a repository with one commit.
func makeRepo() {
	dir := os.Args[1]
	for name, text := range repoFiles {
		path := filepath.Join(dir, filepath.FromSlash(name))
		fail(os.MkdirAll(filepath.Dir(path), 0o755))
		fail(os.WriteFile(path, []byte(text), 0o644))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
		fail(cmd.Run())
	}
}

// writeResults writes the result file of a run that is just over.
func writeResults() {
	repo, err := fingerprint.Open(context.Background(), ".")
	fail(err)
	scope, err := fingerprint.ParseScope([]string{"src", "tests"})
	fail(err)
	m, err := repo.WorkingTree(scope, fingerprint.Options{Exclude: []string{"gpu-proof.json"}})
	fail(err)
	now := time.Now().UTC()
	r := receipt.Results{Format: receipt.ResultsFormat,
		Runner: receipt.Runner{Name: "pytest", Version: "9.2.0", Plugin: "0.2.0", Language: "Python 3.11.7"},
		Mode:   "local", Root: ".", StartedAt: now.Add(-time.Minute).Format(receipt.TimeForm),
		EndedAt: now.Format(receipt.TimeForm), Arguments: []string{"tests", "--password=hunter2"}, Finished: true,
		Code: receipt.ResultsCode{Scope: []string{"src", "tests"}, Exclude: []string{"gpu-proof.json"}, Outputs: []string{},
			Start: m.Digest(), End: m.Digest()},
		Deselected: []string{}, Devices: []receipt.Device{}, Challenges: []receipt.Challenge{}}
	for _, id := range []string{"tests/test_relu.py::test_relu", "tests/test_relu.py::test_big",
		"tests/test_sum.py::test_sum"} {
		r.Collected = append(r.Collected, id)
		r.Tests = append(r.Tests, receipt.Test{ID: id, Outcome: receipt.Passed, Phase: "call", Seconds: 0.25})
	}
	if len(os.Args) > 2 {
		b, err := os.ReadFile(os.Args[2])
		fail(err)
		var c receipt.Challenge
		fail(json.Unmarshal(b, &c))
		r.Challenges = append(r.Challenges, c)
	}
	b, err := json.MarshalIndent(r, "", " ")
	fail(err)
	fail(os.WriteFile(os.Args[1], b, 0o600))
}

// editFile replaces a text, which must be there.
func editFile() {
	b, err := os.ReadFile(os.Args[1])
	fail(err)
	fail(os.WriteFile(os.Args[1], replaced(b, os.Args[2], os.Args[3]), 0o600))
}

func replaced(b []byte, old, new string) []byte {
	if !bytes.Contains(b, []byte(old)) {
		fail(fmt.Errorf("there is no %q", old))
	}
	return bytes.ReplaceAll(b, []byte(old), []byte(new))
}

// envelope is the file of a receipt.
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"`
	Signatures  []map[string]string `json:"signatures"`
}

func (e *envelope) read(path string) {
	b, err := os.ReadFile(path)
	fail(err)
	fail(json.Unmarshal(b, e))
}

func (e *envelope) write(path string) {
	b, err := json.Marshal(e)
	fail(err)
	fail(os.WriteFile(path, b, 0o644))
}

// stripSignatures takes the signatures away from a receipt.
func stripSignatures() {
	var e envelope
	e.read(os.Args[1])
	e.Signatures = []map[string]string{}
	e.write(os.Args[1])
}

// graftSignatures puts the signatures of one receipt under another.
func graftSignatures() {
	var to, from envelope
	to.read(os.Args[1])
	from.read(os.Args[2])
	to.Signatures = from.Signatures
	to.write(os.Args[1])
}

// allowSigner writes a file of allowed signers with one line.
func allowSigner() {
	key, err := os.ReadFile(os.Args[2])
	fail(err)
	fail(os.WriteFile(os.Args[3], []byte(os.Args[1]+" "+string(key)), 0o600))
}

// withLiteral runs a program with a public key as its last argument, as Git's user.signingKey spells it.
func withLiteral() {
	key, err := os.ReadFile(os.Args[1])
	fail(err)
	pass(exec.Command(os.Args[2], append(os.Args[3:], "key::"+strings.TrimSpace(string(key)))...))
}

// keepTests leaves some tests of a result file, as a part of a run would.
func keepTests() {
	b, err := os.ReadFile(os.Args[1])
	fail(err)
	r, err := receipt.ReadResults(os.Args[1], b)
	fail(err)
	r.Collected = os.Args[2:]
	r.Tests = slices.DeleteFunc(r.Tests, func(t receipt.Test) bool { return !slices.Contains(os.Args[2:], t.ID) })
	b, err = json.Marshal(r)
	fail(err)
	fail(os.WriteFile(os.Args[1], b, 0o600))
}

// nameKernel writes a challenge that names the kernel behind its outputs.
func nameKernel() {
	var c receipt.Challenge
	b, err := os.ReadFile(os.Args[1])
	fail(err)
	fail(json.Unmarshal(b, &c))
	c.Kernel = &receipt.ChallengeKernel{PTX: os.Args[2], Entry: os.Args[3], Grid: []string{"cdiv(input.numel, 64)"},
		Block: []string{"64"}, Args: []string{"input", "output", "input.numel"}}
	b, err = json.Marshal(c)
	fail(err)
	fail(os.WriteFile(os.Args[4], b, 0o600))
}

// flipOutput changes an element of the first case that has data, and signs again; with a third argument the digest is
// made again, too.
func flipOutput() {
	var e envelope
	e.read(os.Args[1])
	s, err := receipt.ParseStatement(e.Payload)
	fail(err)
	cases := s.Predicate.Challenges[0].Cases
	i := slices.IndexFunc(cases, func(c receipt.ChallengeCase) bool { return len(c.Outputs["output"].Data) > 0 })
	o := cases[i].Outputs["output"]
	o.Data[3] ^= 0x40 // of the exponent
	if len(os.Args) > 3 {
		sum := sha256.Sum256(o.Data)
		o.SHA256 = hex.EncodeToString(sum[:])
	}
	cases[i].Outputs["output"] = o
	key, err := sshsig.FileSigner(os.Args[2], nil)
	fail(err)
	b, err := s.Seal(key)
	fail(err)
	fail(os.WriteFile(os.Args[1], b, 0o644))
}

// makeHostile writes a file that is no receipt.
func makeHostile() {
	var b []byte
	switch os.Args[2] {
	case "deep":
		b = bytes.Repeat([]byte("["), 1<<20)
	case "large":
		b = append([]byte(`{"payloadType": "`), bytes.Repeat([]byte("x"), 100<<20)...)
	case "latin1":
		b = []byte("{\"payloadType\": \"\xe4\"}")
	case "empty":
	default:
		fail(fmt.Errorf("unknown kind %q", os.Args[2]))
	}
	fail(os.WriteFile(os.Args[1], b, 0o644))
}

// pass runs a program in our place; where it fails, we end with its exit code.
func pass(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	fail(err)
}

// signAgain changes what a receipt says, and signs it: what a signer does who is allowed to sign and lies.
func signAgain() {
	var e envelope
	e.read(os.Args[1])
	e.Payload = replaced(e.Payload, os.Args[3], os.Args[4])
	key, err := sshsig.FileSigner(os.Args[2], nil)
	fail(err)
	sig, err := key.Sign(receipt.Namespace, e.Payload)
	fail(err)
	e.Signatures = []map[string]string{{"sshsig": string(sig)}}
	e.write(os.Args[1])
}

// runReLU stands for a kernel on a GPU: max(x, 0), or with a planted bug x times a factor where x is negative.
func runReLU() {
	factor := 0.0
	if len(os.Args) > 3 {
		_, err := fmt.Sscan(os.Args[3], &factor)
		fail(err)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.safetensors"))
	fail(err)
	fail(os.MkdirAll(os.Args[2], 0o700))
	for _, path := range files {
		f, err := tensor.OpenSafetensors(path)
		fail(err)
		out := f.Tensors[0].Tensor.Clone()
		values := out.Float64s()
		for i, v := range values {
			if v < 0 {
				values[i] = v * factor
				if factor == 0 {
					values[i] = 0
				}
			}
		}
		out.SetFloat64s(values)
		fail(tensor.SaveSafetensors(context.Background(), filepath.Join(os.Args[2], filepath.Base(path)),
			[]tensor.Named{{Name: "output", Tensor: out}}, nil))
		fail(f.Close())
	}
}

// withAgent runs a program beside an agent, which ends with it.
func withAgent() {
	script := `eval "$(ssh-agent -s)" >/dev/null && trap 'kill $SSH_AGENT_PID' EXIT && ssh-add -q "$1" && shift && "$@"`
	pass(exec.Command("sh", append([]string{"-c", script, "agent"}, os.Args[1:]...)...))
}

// checkJSON checks that files have one JSON value each.
func checkJSON() {
	for _, path := range os.Args[1:] {
		b, err := os.ReadFile(path)
		fail(err)
		if !json.Valid(b) {
			fail(fmt.Errorf("%s is not JSON: %.200s", path, b))
		}
	}
}
