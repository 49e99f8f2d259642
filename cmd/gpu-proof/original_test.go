package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// keysForOriginal is what stands for the network of the original: Python imports a module of this name when it starts.
// It serves DIR/NAME.keys for https://github.com/NAME.keys, and nothing else.
const keysForOriginal = `
import io, os, urllib.request

def urlopen(url, timeout=None):
    prefix, name = url.rsplit("/", 1)
    assert prefix == "https://github.com", url
    return io.BytesIO(open(os.path.join(os.environ["KEYS_DIR"], name), "rb").read())

urllib.request.urlopen = urlopen
`

// TestOriginalAccepts: receipts that we write as schema 1 are accepted by pytest-gpu-proof 0.1.0 as published, for each
// kind of key it knows, and a changed one is not.
func TestOriginalAccepts(t *testing.T) {
	python := filepath.Join(testkit.Root(t), ".cache", "original-venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("pytest-gpu-proof 0.1.0 is not installed at %s: run make setup", python)
	}
	dir := t.TempDir()
	site, repo, keys := filepath.Join(dir, "site"), filepath.Join(dir, "repo"), filepath.Join(dir, "keys")
	for _, d := range []string{site, repo, keys} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(site, "sitecustomize.py"), []byte(keysForOriginal), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "PYTHONPATH="+site, "KEYS_DIR="+keys, "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) {
		t.Helper()
		if out, err := run(name, args...); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	must("mkrepo", ".")
	must("results", "../results.json")
	for _, kind := range [][]string{{"ed25519"}, {"ecdsa", "-b", "256"}, {"ecdsa", "-b", "384"}, {"rsa", "-b", "2048"}} {
		name := strings.Join(kind, "")
		t.Run(name, func(t *testing.T) {
			user := strings.ReplaceAll(name, "-b", "")
			key := filepath.Join(dir, name)
			must("ssh-keygen", append([]string{"-q", "-N", "", "-f", key, "-t"}, kind...)...)
			pub, err := os.ReadFile(key + ".pub")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(keys, user+".keys"), pub, 0o600); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, name+".json")
			must("gpu-proof", "sign", "--results", "../results.json", "--format", "1", "--key", key, "--github-user", user,
				"--out", file)
			out, err := run(python, "-m", "pytest_gpu_proof", "verify", "--receipt", file, "--github-user", user)
			if err != nil || !strings.Contains(out, "Receipt verified successfully.") {
				t.Errorf("the original says: %v\n%s", err, out)
			}
			must("edit", file, `"outcome": "passed"`, `"outcome": "skipped"`)
			out, err = run(python, "-m", "pytest_gpu_proof", "verify", "--receipt", file, "--github-user", user,
				"--allow-skipped")
			if err == nil || !strings.Contains(out, "Signature does not match") {
				t.Errorf("the original says of a changed receipt: %v\n%s", err, out)
			}
		})
	}
}
