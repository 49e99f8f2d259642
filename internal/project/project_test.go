package project_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/project"
	"gpuemu/internal/testkit"
)

// every calls f with the options of every kind of project.
func every(t *testing.T, f func(t *testing.T, o project.Options)) {
	for _, framework := range project.Frameworks() {
		for _, o := range []project.Options{
			{Name: "trial", Framework: framework},
			{Name: `a "b" \c é`, Framework: framework, Examples: true, CI: project.GitHub},
			{Name: "trial", Framework: framework, Examples: true, CI: project.GitLab},
		} {
			t.Run(framework+" "+o.CI, func(t *testing.T) { f(t, o) })
		}
	}
}

func files(t *testing.T, o project.Options) []project.File {
	t.Helper()
	list, err := project.Files(o)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestFiles: the configuration is valid, names the ops and their candidates, and is the last file.
func TestFiles(t *testing.T) {
	every(t, func(t *testing.T, o project.Options) {
		list := files(t, o)
		there := map[string]string{}
		for _, f := range list {
			there[f.Path] = string(f.Content)
			for i, line := range strings.Split(string(f.Content), "\n") {
				if strings.TrimRight(line, " \t") != line || len(line) > 120 {
					t.Errorf("%s:%d: trailing space or a long line: %q", f.Path, i+1, line)
				}
			}
			if strings.Contains(string(f.Content), "{{") || !strings.HasSuffix(string(f.Content), "\n") {
				t.Errorf("%s is not a finished text file:\n%s", f.Path, f.Content)
			}
		}
		last := list[len(list)-1]
		c, err := config.Parse(last.Path, last.Content)
		if err != nil || last.Path != config.FileName {
			t.Fatalf("the last file %s: %v", last.Path, err)
		}
		want := project.Ops()
		if !o.Examples {
			want = want[:1]
		}
		if c.Project.Name != o.Name || c.Project.Framework != o.Framework || len(c.Ops) != len(want) {
			t.Errorf("project %+v with %d ops, want %+v with %d", c.Project, len(c.Ops), o, len(want))
		}
		for i, op := range c.Ops {
			file, function, _ := strings.Cut(op.Candidate, ":")
			says := "\ndef " + function + "(inputs"
			if o.Framework == project.CUDA {
				file, says = op.Kernel.Source, "extern \"C\" __global__ void "+op.Name+"("
			}
			if op.Name != want[i] || !strings.Contains(there[file], says) {
				t.Errorf("op %s: %s has no %s", op.Name, file, says)
			}
			emulated := o.Framework == project.CUDA || o.Framework == project.Triton
			if (op.Mode == config.Emulate) != emulated {
				t.Errorf("op %s is executed as %s", op.Name, op.Mode)
			}
			if module := project.Module(o.Framework); module != "" && !strings.Contains(there[file], "\nimport "+module) {
				t.Errorf("%s does not import %s", file, module)
			}
			if strings.Contains(there[file], op.Name+"_numpy") || strings.Contains(there[file], "except ImportError") {
				t.Errorf("%s has something that stands in for the kernel:\n%s", file, there[file])
			}
		}
	})
}

// TestDefaultsAreShown: what stands behind a # in gpuemu.toml is what holds without it.
func TestDefaultsAreShown(t *testing.T) {
	list := files(t, project.Options{Name: "trial", Framework: project.NumPy})
	text := string(list[len(list)-1].Content)
	key := regexp.MustCompile(`(?m)^# (\w+ = )`)
	if n := len(key.FindAllString(text, -1)); n < 10 {
		t.Errorf("%d defaults are shown, want at least 10", n)
	}
	plain, err := config.Parse("gpuemu.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := config.Parse("gpuemu.toml", []byte(key.ReplaceAllString(text, "$1")))
	if err != nil {
		t.Fatal(err)
	}
	plain.Digest, shown.Digest, shown.Validation.HasSeed = "", "", false
	shown.Validation.HasDTypes = false
	if !reflect.DeepEqual(plain, shown) {
		t.Errorf("with the defaults written out the configuration is\n%+v, want\n%+v", shown, plain)
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", "  ", "a\nb", "\xff", "\x00", strings.Repeat("x", 101)} {
		_, err := project.Files(project.Options{Name: name, Framework: project.NumPy})
		if diag.CodeOf(err) != project.BadName {
			t.Errorf("Files with the name %q: %v, want %s", name, err, project.BadName)
		}
	}
}

// TestExample: examples/numpy is what gpuemu init writes. go test -update writes it anew.
func TestExample(t *testing.T) {
	list := files(t, project.Options{Name: "example", Framework: project.NumPy, Examples: true, CI: project.GitHub})
	dir := filepath.Join(testkit.Root(t), "examples", "numpy")
	want := map[string]bool{}
	for _, f := range list {
		want[filepath.FromSlash(f.Path)] = true
		testkit.Golden(t, filepath.Join(dir, filepath.FromSlash(f.Path)), f.Content)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if !want[rel] && !strings.Contains(rel, "__pycache__") {
			t.Errorf("examples/numpy has %s, which gpuemu init does not write", rel)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

var two = []project.File{
	{Path: "kernels/a.py", Content: []byte("new a")}, {Path: "gpuemu.toml", Content: []byte("new")},
}

// tree returns the files below dir with their contents; links are shown as such.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if e.Type()&fs.ModeSymlink != 0 {
			out[rel] = "link"
			return nil
		}
		b, err := os.ReadFile(path)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWrite(t *testing.T) {
	outside := t.TempDir()
	put := func(t *testing.T, dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, dir, name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		set   func(t *testing.T, dir string)
		force bool
		code  diag.Code // "": written
		says  string
	}{
		{name: "new", set: func(*testing.T, string) {}},
		{name: "others stay", set: func(t *testing.T, dir string) { put(t, dir, "kernels/b.py", "b") }},
		{name: "in the way", set: func(t *testing.T, dir string) { put(t, dir, "gpuemu.toml", "old") },
			code: project.InTheWay, says: "already has gpuemu.toml"},
		{name: "both in the way", set: func(t *testing.T, dir string) {
			put(t, dir, "gpuemu.toml", "old")
			put(t, dir, "kernels/a.py", "old")
		}, code: project.InTheWay, says: "already has kernels/a.py, gpuemu.toml"},
		{name: "force", set: func(t *testing.T, dir string) { put(t, dir, "gpuemu.toml", "old") }, force: true},
		{name: "directory leads out", set: func(t *testing.T, dir string) { link(t, dir, "kernels", outside) }, force: true,
			code: project.Outside, says: "kernels in "},
		{name: "directory leads nowhere", set: func(t *testing.T, dir string) { link(t, dir, "kernels", "nowhere") },
			force: true, code: project.Outside, says: "kernels in "},
		{name: "file leads out", set: func(t *testing.T, dir string) {
			put(t, outside, "victim", "old")
			link(t, dir, "gpuemu.toml", filepath.Join(outside, "victim"))
		}, force: true, code: project.Outside, says: "is a link, not a plain file"},
		{name: "directory for a file", set: func(t *testing.T, dir string) { put(t, dir, "gpuemu.toml/x", "old") },
			force: true, code: project.Outside, says: "is a directory, not a plain file"},
		{name: "file for a directory", set: func(t *testing.T, dir string) { put(t, dir, "kernels", "old") }, force: true,
			code: project.Outside, says: "kernels in "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.set(t, dir)
			before, beyond := tree(t, dir), tree(t, outside)
			err := project.Write(dir, two, tt.force)
			if tt.code == "" {
				before["gpuemu.toml"], before[filepath.Join("kernels", "a.py")] = "new", "new a"
			}
			if diag.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Write: %v, want code %q and %q", err, tt.code, tt.says)
			}
			if info, err := os.Stat(filepath.Join(dir, "gpuemu.toml")); tt.name == "force" &&
				(err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("gpuemu.toml, which had the mode 0600, has %v (%v)", info.Mode(), err)
			}
			if after := tree(t, dir); !reflect.DeepEqual(after, before) {
				t.Errorf("the directory has %v, want %v", after, before)
			}
			if after := tree(t, outside); !reflect.DeepEqual(after, beyond) {
				t.Errorf("outside of the directory there is %v, want %v", after, beyond)
			}
		})
	}
	if err := project.Write(filepath.Join(outside, "victim", "x"), two, false); diag.CodeOf(err) != project.WriteFailed {
		t.Errorf("Write below a file: %v, want %s", err, project.WriteFailed)
	}
}

func TestProbe(t *testing.T) {
	python := testkit.Python(t)
	t.Chdir(t.TempDir())
	for _, module := range project.Modules() { // files of the working directory are no packages
		if err := os.WriteFile(module+".py", []byte("raise SystemExit(1)"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	it, err := project.Probe(context.Background(), python)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(it.Version, "3.") || it.Packages["numpy"] == "" || it.Packages["ml_dtypes"] == "" ||
		it.Packages["cupy"] != "" || len(it.Broken) > 0 {
		t.Errorf("Probe = %+v, want numpy and ml_dtypes, and no cupy", it)
	}
	for script, says := range map[string]string{
		"#!/bin/sh\necho hello\n":            "invalid character",
		"#!/bin/sh\necho '{}'\n":             "does not say its version",
		"#!/bin/sh\necho oops >&2\nexit 1\n": "oops",
		"#!/nowhere\n":                       "no such file",
	} {
		path := filepath.Join(t.TempDir(), "python")
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := project.Probe(context.Background(), path); diag.CodeOf(err) != project.NoAnswer ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("Probe of %q: %v, want %s and %q", script, err, project.NoAnswer, says)
		}
	}
}
