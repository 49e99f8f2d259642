package config

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// What is kept is never older than the file: not with the same size and time, not by a relative path from elsewhere.
func TestCacheIsNeverStale(t *testing.T) {
	var c Cache
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	then := time.Now().Add(-time.Hour)
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("[project]\nname = \""+name+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	load := func(want string) *Config {
		t.Helper()
		got, err := c.Load(path)
		if err != nil || got.Project.Name != want {
			t.Fatalf("Load: %+v, %v, want project %q", got, err, want)
		}
		return got
	}
	write("one")
	first := load("one")
	if load("one") != first {
		t.Error("an unchanged file was parsed again")
	}
	write("two") // same size, same time, same inode
	load("two")
	write("one")
	load("one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(path); err == nil {
		t.Error("a file that is gone was found")
	}
	write("=")
	if err := os.WriteFile(path, []byte("[project\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(path); err == nil {
		t.Error("a file that is wrong was accepted")
	}
	for i := range 2 * maxCached {
		path = filepath.Join(dir, strconv.Itoa(i)+".toml")
		write("x")
		load("x")
		if len(c.kept) > maxCached {
			t.Fatalf("%d configurations are kept", len(c.kept))
		}
	}
}

func BenchmarkCache(b *testing.B) {
	var c Cache
	for b.Loop() {
		if _, err := c.Load("testdata/full.toml"); err != nil {
			b.Fatal(err)
		}
	}
}
