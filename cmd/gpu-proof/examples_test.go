package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuemu/internal/policy"
	"gpuemu/internal/proof"
)

// This file tests the jobs for CI among the examples: their form, the flags they pass, and their policies.

// examples are the folders with such jobs.
var examples = []string{"local_receipt_verify", "github_gpu_runner"}

func exampleFile(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "examples"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// workflow is what a workflow of GitHub Actions must have; other keys of steps are actions' own.
type workflow struct {
	Name        string            `yaml:"name"`
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		RunsOn      any    `yaml:"runs-on"`
		Needs       string `yaml:"needs"`
		Environment string `yaml:"environment"`
		Timeout     int    `yaml:"timeout-minutes"`
		Steps       []struct {
			Name string            `yaml:"name"`
			Uses string            `yaml:"uses"`
			Run  string            `yaml:"run"`
			Env  map[string]string `yaml:"env"`
			With map[string]any    `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

var actionForm = regexp.MustCompile(`^actions/[a-z-]+@v\d+$`)

// TestWorkflows: the workflows of the examples have the form that GitHub Actions reads, give no right but that of
// reading, and bring expressions into scripts through the environment alone.
func TestWorkflows(t *testing.T) {
	for _, name := range examples {
		files, err := filepath.Glob(filepath.Join("..", "..", "examples", name, ".github", "workflows", "*.yml"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s has the workflows %q (%v), want one", name, files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		decoder := yaml.NewDecoder(bytes.NewReader(b))
		decoder.KnownFields(true)
		if err := decoder.Decode(&w); err != nil {
			t.Fatalf("%s: %v", files[0], err)
		}
		if len(w.On) == 0 || len(w.Jobs) == 0 || len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: on %v, %d jobs, permissions %v; want jobs that may read", files[0], w.On, len(w.Jobs), w.Permissions)
		}
		for id, job := range w.Jobs {
			if job.RunsOn == nil || job.Timeout == 0 || len(job.Steps) == 0 {
				t.Errorf("%s: job %s has no runner, no time limit or no steps", files[0], id)
			}
			for _, step := range job.Steps {
				if (step.Uses == "") == (step.Run == "") || step.Uses != "" && !actionForm.MatchString(step.Uses) {
					t.Errorf("%s: step %q uses %q and runs %q", files[0], step.Name, step.Uses, step.Run)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: step %q has an expression in its script: pass it by env", files[0], step.Name)
				}
			}
		}
		checkCommands(t, files[0], string(b))
	}
}

// TestGitLabJobs does the same for GitLab.
func TestGitLabJobs(t *testing.T) {
	for _, name := range examples {
		var document map[string]any
		b := exampleFile(t, name, ".gitlab-ci.yml")
		if err := yaml.Unmarshal(b, &document); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for id, job := range document {
			if id == "stages" {
				continue
			}
			script, _ := job.(map[string]any)["script"].([]any)
			if len(script) == 0 {
				t.Errorf("%s: job %s has no script", name, id)
			}
			for _, line := range script {
				if _, ok := line.(string); !ok {
					t.Errorf("%s: job %s has the line %v, want text", name, id, line)
				}
			}
		}
		checkCommands(t, name, string(b))
	}
}

var (
	commandForm = regexp.MustCompile(`(?m)(?:^|\s)gpu-proof (verify|sign|snapshot)((?: +\S+)*)`)
	flagForm    = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// checkCommands: the commands of a text exist, and so do their flags.
func checkCommands(t *testing.T, file, text string) {
	t.Helper()
	commands := commandForm.FindAllStringSubmatch(text, -1)
	if len(commands) == 0 {
		t.Errorf("%s calls no command", file)
	}
	for _, found := range commands {
		var help bytes.Buffer
		none := func(string) string { return "" }
		env := proof.Env{Args: []string{found[1], "--help"}, Stdout: &help, Stderr: &help, Getenv: none}
		if code := proof.Main(env); code != 0 {
			t.Fatalf("gpu-proof %s --help: exit code %d", found[1], code)
		}
		known := flagForm.FindAllString(help.String(), -1)
		for _, flag := range flagForm.FindAllString(found[2], -1) {
			if !slices.Contains(known, flag) {
				t.Errorf("%s: gpu-proof %s has no flag %s", file, found[1], flag)
			}
		}
	}
}

// TestExamplePolicies: the policies of the examples and the signers they name are read.
func TestExamplePolicies(t *testing.T) {
	for _, name := range examples {
		rules, err := policy.Parse("gpu-proof.yml", exampleFile(t, name, ".github", "gpu-proof.yml"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read := func(file string) ([]byte, error) { return exampleFile(t, name, ".github", file), nil }
		if err := rules.LoadFiles(read); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rules.AllowedSigners == nil || len(rules.AllowedSigners.Faults) > 0 || !rules.RequireGPU {
			t.Errorf("%s: the policy is %+v, want allowed signers and a GPU", name, rules)
		}
	}
}
