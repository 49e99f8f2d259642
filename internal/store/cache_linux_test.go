package store

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/verdict"
)

// A list of failures is read from the page cache once it was read, also after a transaction that wrote more than the
// caches of all connections hold.
func TestCacheAfterLargeWrite(t *testing.T) {
	s := open(t, Options{})
	list := func() {
		err := s.OpenFailures(t.Context(), Filter{Limit: 20}, func(json.RawMessage) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	list() // the connection that reads is there before
	var loose []Loose
	for i := range 9000 {
		loose = append(loose, Loose{Result: &verdict.Result{Op: "relu", DType: "float32", Case: "relu " + strconv.Itoa(i),
			Seed: verdict.Seed(i), Verdict: verdict.Fail, Message: strings.Repeat("x", 1500), Candidate: verdict.ClientSide,
			Time: time.Unix(int64(i), 0)}, ConfigPath: "/p/gpuemu.toml"})
	}
	if err := s.AddResults(t.Context(), loose); err != nil {
		t.Fatal(err)
	}
	list()
	before := readCalls(t)
	for range 10 {
		list()
	}
	if n := readCalls(t) - before; n > 100 {
		t.Errorf("10 lists took %d system calls that read, want them to come from the cache", n)
	}
}

// readCalls is how many system calls of this process have read.
func readCalls(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("the system does not count: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "syscr: ")
	count, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
