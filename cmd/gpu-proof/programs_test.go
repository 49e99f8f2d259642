package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		EndedAt: now.Format(receipt.TimeForm), Arguments: []string{"tests"}, Finished: true,
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

// signAgain changes what a receipt says, and signs it: what a signer does who is allowed to sign and lies.
func signAgain() {
	var e struct {
		PayloadType string              `json:"payloadType"`
		Payload     []byte              `json:"payload"`
		Signatures  []map[string]string `json:"signatures"`
	}
	b, err := os.ReadFile(os.Args[1])
	fail(err)
	fail(json.Unmarshal(b, &e))
	e.Payload = replaced(e.Payload, os.Args[3], os.Args[4])
	key, err := sshsig.FileSigner(os.Args[2], nil)
	fail(err)
	sig, err := key.Sign(receipt.Namespace, e.Payload)
	fail(err)
	e.Signatures = []map[string]string{{"sshsig": string(sig)}}
	b, err = json.Marshal(e)
	fail(err)
	fail(os.WriteFile(os.Args[1], b, 0o644))
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
	cmd := exec.Command("sh", append([]string{"-c", script, "agent"}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	fail(err)
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
