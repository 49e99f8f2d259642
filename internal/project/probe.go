package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

// This file implements the question which packages an interpreter has.

// Interpreter is what a Python interpreter says of itself.
type Interpreter struct {
	Path     string            `json:"-"`
	Version  string            `json:"version"`
	Packages map[string]string `json:"packages"` // module to version, of those that are installed
	Broken   map[string]string `json:"broken"`   // module to the error of importing it
}

// Modules are the packages Probe asks for, in the order to show them.
func Modules() []string {
	return []string{"numpy", "ml_dtypes", "torch", "jax", "tensorflow", "triton", "cupy"}
}

// probeLimit is how long an interpreter may take to answer. A cold start with numpy takes a second or two.
const probeLimit = 10 * time.Second

// Probe starts the interpreter once and asks what it has. Only numpy and ml_dtypes are imported.
func Probe(ctx context.Context, path string) (*Interpreter, error) {
	distributions := map[string][]string{}
	for _, m := range Modules() {
		distributions[m] = []string{m}
	}
	// The same module from other distributions: builds for one CUDA version, or without it.
	distributions["tensorflow"] = append(distributions["tensorflow"], "tensorflow-cpu")
	distributions["triton"] = append(distributions["triton"], "pytorch-triton")
	distributions["cupy"] = append(distributions["cupy"], "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x")
	question, err := json.Marshal(distributions)
	if err != nil {
		panic("project: internal error: " + err.Error()) // plain strings always marshal
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", string(read("probe.py")), string(question))
	cmd.WaitDelay = time.Second // a child of its own may keep the pipe open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, diag.Errorf(NoAnswer, "try it by hand: "+path+" -c 'import numpy'",
			"%s did not answer within %v", path, probeLimit)
	}
	it := &Interpreter{Path: path}
	if err == nil {
		err = json.Unmarshal([]byte(lastLine(string(out))), it)
	}
	if err == nil && it.Version == "" {
		err = errors.New("it does not say its version")
	}
	if err != nil {
		text := err.Error()
		if last := lastLine(stderr.String()); last != "" {
			text = last
		}
		return nil, diag.Errorf(NoAnswer, "gpuemu needs Python 3.9 or newer", "%s does not say what it has: %s", path, text)
	}
	return it, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
