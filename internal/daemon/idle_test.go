package daemon

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/wire"
)

// stoppedClock is a clock that stands still until a test moves it.
type stoppedClock struct {
	mu    sync.Mutex
	now   time.Time             // guarded by mu
	asked chan time.Duration    // what After was called with
	fire  chan (chan time.Time) // of that call
}

func newStoppedClock() *stoppedClock {
	return &stoppedClock{now: time.Unix(1e9, 0), asked: make(chan time.Duration), fire: make(chan chan time.Time)}
}

func (c *stoppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stoppedClock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	go func() { c.asked <- d; c.fire <- ch }()
	return ch
}

// wait expects that somebody waits for so long, and lets a part of it pass before during, the rest after.
func (c *stoppedClock) wait(t *testing.T, want, before time.Duration, during func()) {
	t.Helper()
	got := <-c.asked
	ch := <-c.fire
	if got != want {
		t.Fatalf("the daemon waits for %v, want %v", got, want)
	}
	c.move(before)
	during()
	c.move(want - before)
	ch <- c.Now()
}

func (c *stoppedClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// TestIdle: a daemon that was started on demand ends when it has had nothing to do for its time, counted from the end
// of the last request, and not while there is work.
func TestIdle(t *testing.T) {
	dir, err := os.MkdirTemp("", "gd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	clock := newStoppedClock()
	s, err := New(t.Context(), Options{Home: filepath.Join(dir, "h"), Socket: filepath.Join(dir, "h", "s"),
		Version: "test", Now: clock.Now, After: clock.After, Idle: 15 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(context.Background()) }()
	clock.wait(t, 15*time.Minute, 10*time.Minute, func() {
		w := httptest.NewRecorder() // the request has ended when ServeHTTP returns
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/status", nil))
		var st wire.Status
		err := json.Unmarshal(w.Body.Bytes(), &st)
		if err != nil || st.IdleSeconds != 900 || st.PID != os.Getpid() || st.UptimeSeconds != 600 || st.Version != "test" {
			t.Errorf("status = %s, want 900 idle seconds, 600 of life, and this process", w.Body)
		}
	})
	clock.wait(t, 10*time.Minute, 9*time.Minute, func() {
		if !s.enter() {
			t.Error("a daemon that waits lets no request in")
		}
	})
	clock.wait(t, 15*time.Minute, 5*time.Minute, s.leave) // it looked while a request was running
	clock.wait(t, 5*time.Minute, 0, func() {
		if err := s.reserve(); err != nil {
			t.Error(err)
		}
	})
	clock.wait(t, 15*time.Minute, 15*time.Minute, s.release)
	clock.wait(t, 15*time.Minute, 0, func() {})
	if err := <-served; err != nil {
		t.Errorf("ListenAndServe = %v", err)
	}
	if s.enter() {
		t.Error("a daemon that has ended lets a request in")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
