package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// text fills a file.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// project is a directory with a file of a mode.
func project(t *testing.T, mode fs.FileMode) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// has checks a file's content and that its directory has those names and no others.
func has(t *testing.T, path, want string, names ...string) {
	t.Helper()
	if got, err := os.ReadFile(path); string(got) != want || err != nil {
		t.Errorf("%s has %q, %v, want %q", path, got, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("the directory has %v, want %v", got, names)
	}
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestReplaceKeepsMode: a file that is there keeps its permissions, whatever those of a new one would be.
func TestReplaceKeepsMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o755, 0o444, 0o666} {
		_, path := project(t, mode)
		if err := Replace(path, 0o644, text("new")); err != nil {
			t.Fatal(err)
		}
		has(t, path, "new", "file")
		if got := modeOf(t, path); got != mode {
			t.Errorf("the mode is %v, want %v", got, mode)
		}
	}
	path := filepath.Join(t.TempDir(), "fresh")
	if err := Replace(path, 0o600, text("new")); err != nil {
		t.Fatal(err)
	}
	if got := modeOf(t, path); got != 0o600 {
		t.Errorf("the mode of a new file is %v, want 0600", got)
	}
}

// TestReplaceBehindLinks: links stay, and what they lead to is replaced, through several of them and where nothing is
// there yet.
func TestReplaceBehindLinks(t *testing.T) {
	dir, path := project(t, 0o640)
	other := t.TempDir()
	for name, target := range map[string]string{"first": "second", "second": path, "dangling": "made",
		"loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(other, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	links := []string{"dangling", "first", "loop", "second"}
	if err := Replace(filepath.Join(dir, "other", "first"), 0o644, text("new")); err != nil {
		t.Fatal(err)
	}
	has(t, path, "new", "file", "other")
	has(t, filepath.Join(other, "first"), "new", links...)
	if got := modeOf(t, path); got != 0o640 {
		t.Errorf("the mode is %v, want 0640", got)
	}
	if err := Replace(filepath.Join(other, "dangling"), 0o644, text("made")); err != nil {
		t.Fatal(err)
	}
	has(t, filepath.Join(other, "made"), "made", "dangling", "first", "loop", "made", "second")
	var f *Fault
	if err := Replace(filepath.Join(other, "loop"), 0o644, text("x")); !errors.As(err, &f) {
		t.Errorf("a link to itself: %v", err)
	}
	for _, name := range links {
		if modeOf(t, filepath.Join(other, name))&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more", name)
		}
	}
}

// TestReplaceFaults: whatever goes wrong, the old file is there and nothing else, and the error says whose it is.
func TestReplaceFaults(t *testing.T) {
	dir, path := project(t, 0o640)
	own := errors.New("no more to say")
	err := Replace(path, 0o644, func(w io.Writer) error {
		_, _ = io.WriteString(w, strings.Repeat("half", 1<<16)) // more than a buffer holds
		return own
	})
	var f *Fault
	if err != own {
		t.Errorf("Replace = %v, want the error of fill", err)
	}
	has(t, path, "old", "file")
	err = Replace(path, 0o644, func(w io.Writer) error { return os.Chmod(dir, 0o700) })
	if err != nil {
		t.Errorf("an empty file: %v", err)
	}
	for name, want := range map[string]error{"": ErrNotRegular, "gone/file": fs.ErrNotExist, "file/below": nil} {
		target := filepath.Join(dir, name)
		err := Replace(target, 0o644, text("new"))
		if !errors.As(err, &f) || f.Path != target || want != nil && !errors.Is(err, want) ||
			!strings.HasPrefix(err.Error(), "write "+target+": ") {
			t.Errorf("Replace(%s) = %v, want a fault with %v", target, err, want)
		}
	}
	has(t, path, "", "file")
}

// TestStage: several files change together, and nothing is left of those that are discarded.
func TestStage(t *testing.T) {
	dir, path := project(t, 0o755)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	one, err := Stage(root, "file", 0o644, text("new"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Stage(root, "second", 0o644, text("2"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != "old" || err != nil {
		t.Errorf("before Commit the file has %q, %v", got, err)
	}
	if err := one.Commit(); err != nil {
		t.Fatal(err)
	}
	two.Discard()
	one.Discard() // of what was committed: nothing
	has(t, path, "new", "file")
	if got := modeOf(t, path); got != 0o755 {
		t.Errorf("the mode is %v, want 0755", got)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Stage(root, "link", 0o644, text("x")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a link in the place: %v", err)
	}
}
