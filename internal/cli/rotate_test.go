package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRotating: the log stays within its limits, no record is split, and what is left is the newest.
func TestRotating(t *testing.T) {
	const limit, keep, records = 100, 3, 60
	path := filepath.Join(t.TempDir(), "logs", "daemon.log")
	var r *rotating
	for i := range records {
		if i%7 == 0 { // a daemon that starts again goes on with the same files
			if r != nil {
				r.Close()
			}
			var err error
			if r, err = openRotating(path, limit, keep); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(r, "record %04d of the log\n", i); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != keep {
		t.Fatalf("%d files %q, want %d (%v)", len(files), files, keep, err)
	}
	text := ""
	for _, name := range []string{path + ".2", path + ".1", path} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > limit {
			t.Errorf("%s has %d bytes, want at most %d", name, len(b), limit)
		}
		text += string(b)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if want := fmt.Sprintf("record %04d of the log", records-len(lines)+i); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the log is %v (%v), want 600", info.Mode(), err)
	}
}

// TestLinesFrom: the last lines behind an offset, also of a file that was rotated since.
func TestLinesFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\nthr\x1bee\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset int64
		n      int
		want   string
	}{
		{0, 9, "one\ntwo\nthr\\x1bee\n"}, {0, 1, "thr\\x1bee\n"}, {4, 9, "two\nthr\\x1bee\n"}, {15, 9, ""},
		{99, 2, "two\nthr\\x1bee\n"}, {0, 0, ""},
	} {
		if got, end := linesFrom(path, c.offset, c.n); got != c.want || end != 15 {
			t.Errorf("linesFrom(%d, %d) = %q, %d, want %q, 15", c.offset, c.n, got, end, c.want)
		}
	}
	if got, _ := linesFrom(path+".1", 0, 5); got != "" {
		t.Errorf("a file that is not there gives %q", got)
	}
}

// TestLineCopier: lines that are added are printed when they are complete, and none of them steers a terminal.
func TestLineCopier(t *testing.T) {
	var out strings.Builder
	term := newTerminal(Env{Stdout: &out, Stderr: &out})
	lines := &lineCopier{term: term}
	for _, added := range []string{"one\n::t", "wo\n\x1b[2Jthree", "", strings.Repeat("x", 5000) + "\npart"} {
		if err := lines.copy(strings.NewReader(added)); err != nil {
			t.Fatal(err)
		}
	}
	if err := term.flush(); err != nil {
		t.Fatal(err)
	}
	want := "one\n" + `\x3a:two` + "\n" + `\x1b[2Jthree` + strings.Repeat("x", 5000) + "\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
