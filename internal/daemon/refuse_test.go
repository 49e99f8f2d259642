package daemon

// This file implements the tests of what is refused before any work is done.

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/wire"
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

// What a request names is quoted up to a limit, over both protocols.
func TestRefusalsAreShort(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", 1<<20)
	_, err := askCases(t, f.local(), &wire.CasesRequest{Op: long, Count: 1})
	if err == nil || len(err.Error()) > 2*maxErrorText || diag.CodeOf(err) != campaign.UnknownOp {
		t.Errorf("an op with a long name: %.100v of %d bytes", err, len(err.Error()))
	}
	reply := f.serveV1(t.Context(), []byte(`{"type": "`+long+`"}`))
	if !strings.Contains(string(reply), `"Error"`) || len(reply) > 2*maxErrorText {
		t.Errorf("a request of v1 of a long type: %.100s of %d bytes", reply, len(reply))
	}
	_, err = f.local().Submit(t.Context(), &wire.SubmitHeader{Config: f.config, Op: "theirs", DType: "float8"}, nil, nil)
	wantCode(t, err, BadRequest)
}

// A report or baseline is read from a regular file: a pipe that nobody writes to would be waited for.
func TestBaselineInPipe(t *testing.T) {
	f := newFixture(t)
	pipe := filepath.Join(t.TempDir(), "baseline.json")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := f.local().Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "test", Ops: []string{"relu"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.local().Diff(t.Context(), &wire.DiffRequest{Config: f.config, Baseline: pipe})
	if err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a baseline in a pipe: %v", err)
	}
}

// A campaign of one project is no baseline of another.
func TestBaselineOfAnotherProject(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	sum, err := c.Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "test", Ops: []string{"relu"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "gpuemu.toml")
	if err := os.WriteFile(other, []byte(projectText), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = c.SaveBaseline(t.Context(), &wire.BaselineRequest{Config: other, Tag: "t", Campaign: sum.Campaign})
	wantCode(t, err, NoCampaign)
	if _, err := c.SaveBaseline(t.Context(), &wire.BaselineRequest{Config: f.config, Tag: "t",
		Campaign: sum.Campaign}); err != nil {
		t.Error(err)
	}
}

// What follows a body in chunks is no request: with a length beside them, another reader may have taken it for a body.
func TestNothingFollowsChunks(t *testing.T) {
	f := newFixture(t)
	f.listening(t)
	resp := rawRequest(t, dialSocket(t, f), "POST /v1/failures HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 200\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"+pingText)
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("%s, close %v, want the end of the connection", resp.Status, resp.Close)
	}
}

// Of a header no more is allocated than has come.
func TestHeaderThatDoesNotCome(t *testing.T) {
	n := allocated(func() {
		if _, err := readHeader(strings.NewReader("\xff\xff\xff\x00{")); err == nil {
			t.Error("a header that ends too early is read")
		}
	})
	if n > 1<<20 {
		t.Errorf("%d bytes were allocated for one", n)
	}
}
