package daemon

// This file implements the tests of what is refused before any work is done.

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// A body that says it is too large is refused by its header: nobody waits for it.
func TestHugeBodyIsRefusedAtOnce(t *testing.T) {
	s, err := New(t.Context(), Options{Home: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	req := httptest.NewRequest(http.MethodPost, "/v1/failures", strings.NewReader("{}"))
	req.Header.Set("Content-Type", jsonType)
	req.ContentLength = 99_999_999_999
	reply := httptest.NewRecorder()
	s.Handler().ServeHTTP(reply, req)
	if reply.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want %d: %s", reply.Code, http.StatusRequestEntityTooLarge, reply.Body)
	}
}

// A home, or a run directory in it, of another user is refused: its owner could replace the programs started there.
func TestHomeOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give directories away")
	}
	const nobody = 65534
	for _, dir := range []string{".", "run"} {
		home := t.TempDir()
		path := filepath.Join(home, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		s, err := New(t.Context(), Options{Home: home})
		if err == nil {
			s.Close()
		}
		if diag.CodeOf(err) != BadHome || !strings.Contains(err.Error(), "another user") {
			t.Errorf("%s of another user: %v, want %s", dir, err, BadHome)
		}
	}
}
