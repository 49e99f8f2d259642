// Package testkit reads known answers and golden files. Only _test.go files import it.
//
// Known answers stand in testdata/vectors at the root of the repository, one directory per package, and are read by
// every language of the project alike. Reading is strict: a field that the test does not know fails, and so does a
// set that is absent or empty, because a test that checks nothing must not pass.
package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// VectorDir is where known answers stand, relative to the root of the repository.
const VectorDir = "testdata/vectors"

// Root returns the directory of go.mod above the test's working directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err == nil {
		dir, err = findRoot(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func findRoot(dir string) (string, error) {
	for at := dir; ; {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("no go.mod in %s or above it", dir)
		}
		at = up
	}
}

// VectorPath returns the path of a set of known answers, for example of "rng/rng-v1.json".
func VectorPath(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Root(t), filepath.FromSlash(VectorDir), filepath.FromSlash(name))
}

// Read returns the one JSON value of the vector file name. Use it for a file that holds several sets, and hand each
// of them to EachOf, which fails on an empty one.
func Read[T any](t testing.TB, name string) T {
	t.Helper()
	v, err := readFile[T](VectorPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Each runs f as a subtest for every vector of the set name: a file that holds a JSON array, or a directory all of
// whose .json files do.
func Each[T any](t *testing.T, name string, f func(t *testing.T, v T)) {
	t.Helper()
	files, err := listFiles(VectorPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		vs, err := readFile[[]T](file)
		if err != nil {
			t.Fatal(err)
		}
		EachOf(t, strings.TrimSuffix(path.Base(filepath.ToSlash(file)), ".json"), vs, f)
	}
}

// EachOf runs f as a subtest for every vector of a set that is already read. The subtests are called set/0, set/1, …
func EachOf[T any](t *testing.T, set string, vs []T, f func(t *testing.T, v T)) {
	t.Helper()
	if err := checkSet(set, len(vs)); err != nil {
		t.Fatal(err)
	}
	for i, v := range vs {
		t.Run(fmt.Sprintf("%s/%d", set, i), func(t *testing.T) { f(t, v) })
	}
}

func checkSet(set string, n int) error {
	if n == 0 {
		return fmt.Errorf("vectors %s: the set is empty", set)
	}
	return nil
}

func listFiles(file string) ([]string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	if !info.IsDir() {
		return []string{file}, nil
	}
	files, err := filepath.Glob(filepath.Join(file, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	return files, checkSet(file, len(files))
}

func readFile[T any](file string) (T, error) {
	var v T
	b, err := os.ReadFile(file)
	if err != nil {
		return v, fmt.Errorf("vectors: %w", err)
	}
	if err := decodeStrict(b, &v); err != nil {
		return v, fmt.Errorf("vectors %s: %w", file, err)
	}
	return v, nil
}

// decodeStrict decodes exactly one JSON value without unknown fields.
func decodeStrict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the first JSON value")
	}
	return nil
}
