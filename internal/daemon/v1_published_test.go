package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/testkit"
)

// publishedToml are the ops of testdata/published_client.py beside those of v1Toml. Edge cases of the published fuzzer
// have one and two dimensions, which softmax of the catalogue does not take: free and freemine have references of their
// own.
const publishedToml = v1Toml + `
[[ops]]
name = "free"
candidate = "ops.py:softmax"
reference = "ops.py:softmax64"
input_names = ["input"]

[[ops]]
name = "freemine"
reference = "ops.py:softmax64"
input_names = ["input"]
`

// publishedPython is the interpreter that has the published client.
func publishedPython(t *testing.T) string {
	t.Helper()
	path := filepath.Join(testkit.Root(t), ".cache", "published-venv", "bin", "python")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the published client is not installed at %s: run make setup", path)
	}
	return path
}

// TestV1PublishedClient: gpuemu 0.1.0 from PyPI works against our server without a change.
func TestV1PublishedClient(t *testing.T) {
	python, ours := publishedPython(t), testkit.Python(t)
	script, err := filepath.Abs(filepath.Join("testdata", "published_client.py"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gpuemu") // t.TempDir may be too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for name, text := range map[string]string{"gpuemu.toml": publishedToml, "ops.py": v1Ops} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir) // where the daemon starts is where it looks for gpuemu.toml
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	socket := filepath.Join(dir, "home", "s.sock")
	s, err := New(ctx, Options{Home: filepath.Join(dir, "home"), Socket: socket, Version: "test", Python: ours})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(ctx) }()
	out, err := exec.CommandContext(ctx, python, script, socket).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
		t.Errorf("published_client.py: %v\n%s", err, out)
		cancel()
	}
	// The script's last request was Shutdown: the server ends by itself.
	if err := <-served; err != nil {
		t.Errorf("ListenAndServe = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
