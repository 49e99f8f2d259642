package forge

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
)

const (
	keyOne = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILcF3va4huQjotV47IqhXau0wrCfQHqK5kQk9GbTpvSf"
	keyTwo = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBJLPo9z3PWdRqh2mWit9Ynw/kGPG1/lT/" +
		"gVBXmR6iDMxTvQO25lqfPFvjMJhr6amQUd7jKFnPm/bTV3faBwd1Ak="
)

// pages is a network: pages by their addresses. Every request is noted.
type pages struct {
	pages map[string]string
	asked []string
}

func (p *pages) RoundTrip(req *http.Request) (*http.Response, error) {
	p.asked = append(p.asked, req.URL.String())
	body, found := p.pages[req.URL.String()]
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !found {
		rec.WriteHeader(http.StatusNotFound)
	}
	rec.WriteString(body)
	return rec.Result(), nil
}

func names(keys []sshsig.PublicKey) string {
	var list []string
	for _, k := range keys {
		list = append(list, k.Type()+" "+k.Origin)
	}
	return strings.Join(list, "; ")
}

// TestForges: the pages of each kind of forge, at home and on hosts of one's own. Row B19: GitHub's two lists are read
// both, and each key says where it was.
func TestForges(t *testing.T) {
	signing := func(keys ...string) string {
		var list []map[string]any
		for i, k := range keys {
			list = append(list, map[string]any{"id": i, "key": k, "title": "t", "created_at": "2026-01-01T00:00:00Z"})
		}
		b, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const api = "https://api.github.com/users/alice/ssh_signing_keys?per_page=100&page=1"
	for _, tt := range []struct {
		name, kind, base string
		pages            map[string]string
		want             string
	}{
		{"GitHub, one of each", "github", "", map[string]string{"https://github.com/alice.keys": keyOne + "\n",
			api: signing(keyTwo)}, "ssh-ed25519 authentication key; ecdsa-sha2-nistp256 signing key"},
		{"GitHub, the same", "github", "", map[string]string{"https://github.com/alice.keys": keyOne,
			api: signing(keyOne)}, "ssh-ed25519 authentication and signing key"},
		{"GitHub, signing alone", "github", "", map[string]string{"https://github.com/alice.keys": "",
			api: signing(keyTwo)}, "ecdsa-sha2-nistp256 signing key"},
		{"GitHub Enterprise", "github", "https://git.corp.example/", map[string]string{
			"https://git.corp.example/alice.keys":                                              keyOne,
			"https://git.corp.example/api/v3/users/alice/ssh_signing_keys?per_page=100&page=1": signing(keyTwo)},
			"ssh-ed25519 authentication key; ecdsa-sha2-nistp256 signing key"},
		{"GitHub Enterprise without signing keys", "github", "https://git.corp.example", map[string]string{
			"https://git.corp.example/alice.keys": keyOne}, "ssh-ed25519 authentication key"},
		{"GitLab", "gitlab", "", map[string]string{"https://gitlab.com/alice.keys": keyOne}, "ssh-ed25519 "},
		{"GitLab under a path", "gitlab", "https://example.com/gitlab/", map[string]string{
			"https://example.com/gitlab/alice.keys": keyOne}, "ssh-ed25519 "},
		{"Gitea", "gitea", "https://git.example:3000", map[string]string{
			"https://git.example:3000/alice.keys": keyOne + "\n" + keyTwo}, "ssh-ed25519 ; ecdsa-sha2-nistp256 "},
		{"Forgejo", "forgejo", "", map[string]string{"https://codeberg.org/alice.keys": keyOne}, "ssh-ed25519 "},
		{"SourceHut", "sourcehut", "", map[string]string{"https://meta.sr.ht/~alice.keys": keyOne}, "ssh-ed25519 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			net := &pages{pages: tt.pages}
			source, err := Online(tt.kind, tt.base, net)
			if err != nil {
				t.Fatal(err)
			}
			keys, err := source.Keys(context.Background(), "alice")
			if names(keys) != tt.want || err != nil {
				t.Errorf("Keys = %q, %v, want %q; asked for %q", names(keys), err, tt.want, net.asked)
			}
			// Row B18: nothing is kept; a key that was removed is gone at once.
			tt.pages = nil
			net.pages = nil
			if keys, err := source.Keys(context.Background(), "alice"); len(keys) != 0 || !errors.Is(err, ErrNoUser) {
				t.Errorf("Keys after the account is gone = %q, %v, want %v", names(keys), err, ErrNoUser)
			}
		})
	}
}

// TestSigningPages: GitHub's list comes in pages of 100.
func TestSigningPages(t *testing.T) {
	const api = "https://api.github.com/users/alice/ssh_signing_keys?per_page=100&page="
	full := "[" + strings.TrimSuffix(strings.Repeat(`{"key":"`+keyOne+`"},`, 100), ",") + "]"
	net := &pages{pages: map[string]string{"https://github.com/alice.keys": "", api + "1": full,
		api + "2": `[{"key":"` + keyTwo + `"}]`}}
	source, err := Online("github", "", net)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := source.Keys(context.Background(), "alice")
	if want := "ssh-ed25519 signing key; ecdsa-sha2-nistp256 signing key"; names(keys) != want || err != nil {
		t.Errorf("Keys = %q, %v, want %q", names(keys), err, want)
	}
	net.pages[api+"2"] = full
	for page := 3; page <= maxPages; page++ {
		net.pages[fmt.Sprint(api, page)] = full
	}
	net.asked = nil
	if _, err := source.Keys(context.Background(), "alice"); err != nil || len(net.asked) != 1+maxPages {
		t.Errorf("Keys of an endless list: %v after %d requests, want %d", err, len(net.asked), 1+maxPages)
	}
}

// TestNamesBeforeRequests: rows B2 and B15. A name that is none leads to no request, whatever it would have led to.
func TestNamesBeforeRequests(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea", "forgejo", "sourcehut"} {
		net := &pages{}
		source, err := Online(kind, "", net)
		if err != nil {
			t.Fatal(err)
		}
		bad := []string{"", "unknown", "UNKNOWN", "x.keys#@torvalds", "owner/repo/raw/main/y", "../../x", "a\r\nHost: evil",
			"a?x", "@evil.example", "%2e%2e", "-o"}
		if kind == "github" {
			bad = append(bad, "john.doe", strings.Repeat("a", 40))
		}
		for _, name := range bad {
			keys, err := source.Keys(context.Background(), name)
			if len(keys) != 0 || diag.CodeOf(err) != BadName || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%s: Keys(%q) = %d keys, %v, want %s", kind, name, len(keys), err, BadName)
			}
			if _, err := Folder(t.TempDir()).Keys(context.Background(), name); kind != "github" && diag.CodeOf(err) != BadName {
				t.Errorf("Folder: Keys(%q) = %v, want %s", name, err, BadName)
			}
		}
		if len(net.asked) > 0 {
			t.Errorf("%s was asked for %q", kind, net.asked)
		}
	}
}

// server starts a forge behind TLS and returns a source that asks it.
func server(t *testing.T, kind string, handle http.HandlerFunc) (*online, *httptest.Server) {
	t.Helper()
	s := httptest.NewTLSServer(handle)
	t.Cleanup(s.Close)
	source, err := Online(kind, s.URL, s.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	return source.(*online), s
}

// TestAnswers: what a forge may answer. Only 404 says that there is nobody; everything else says that nothing is known.
func TestAnswers(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("another host was asked")
		io.WriteString(w, keyOne)
	}))
	defer elsewhere.Close()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "77")
			w.WriteHeader(code)
		}
	}
	redirect := func(to func(r *http.Request) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/alice.keys":
				w.Header().Set("Location", to(r))
				w.WriteHeader(http.StatusFound)
			default:
				io.WriteString(w, keyOne)
			}
		}
	}
	for _, tt := range []struct {
		name       string
		handle     http.HandlerFunc
		is         error
		text, hint string
	}{
		{"nobody", status(404), ErrNoUser, "has no account alice", "check the name"},
		{"too many requests", status(429), ErrUnreachable, "429 Too Many Requests", "try again in 77 s"},
		{"GitHub's limit", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Reset", "1800000000")
			w.WriteHeader(http.StatusForbidden)
		}, ErrUnreachable, "403 Forbidden", "try again after 2027-01-15T08:00:00Z"},
		{"forbidden", status(403), ErrUnreachable, "403 Forbidden", "try again in 77 s"},
		{"broken", status(500), ErrUnreachable, "500 Internal Server Error", "try again"},
		{"down", status(503), ErrUnreachable, "/alice.keys: the forge could not be asked: it answers 503 Service Unavailable",
			"try again in 77 s"},
		{"wants a login", status(401), ErrUnreachable, "401 Unauthorized", "check the address"},
		{"no content", status(204), ErrUnreachable, "204 No Content", "check the address"},
		{"to another host", redirect(func(*http.Request) string { return elsewhere.URL + "/alice.keys" }), ErrUnreachable,
			"which is not followed", "renamed"},
		{"to http", redirect(func(r *http.Request) string { return "http://" + r.Host + "/alice.keys" }), ErrUnreachable,
			"which is not followed", "renamed"},
		{"to another account", redirect(func(*http.Request) string { return "/bob.keys" }), ErrUnreachable,
			"which is not followed", "renamed"},
		{"to itself", redirect(func(*http.Request) string { return "/alice.keys" }), ErrUnreachable, "which is not followed",
			"renamed"},
		{"to a hostile text", redirect(func(*http.Request) string { return "/x%0a::error::y\u202e" }), ErrUnreachable,
			"which is not followed", "renamed"},
		{"a web page", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "<!DOCTYPE html><title>Sign in</title>")
		}, ErrUnreachable, "a web page", "login"},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, strings.Repeat(keyOne+"\n", maxList/len(keyOne)+1))
		}, ErrUnreachable, "more than 1048576 bytes", ""},
		{"a bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(bytes.Repeat([]byte("\n"), 50<<20))
			z.Close()
		}, ErrUnreachable, "more than 1048576 bytes", ""},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, keyOne)
		}, ErrUnreachable, "unexpected EOF", ""},
		{"no keys", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/plain") }, nil,
			"alice has no keys", "adds the public key"},
		{"weak keys alone", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "ssh-dss AAAA\nssh-dss BBBB\n")
		}, nil, "[sshsig-weak-key] (and 1 more)", "adds the public key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source, _ := server(t, "gitlab", tt.handle)
			keys, err := source.Keys(context.Background(), "alice")
			if len(keys) != 0 || err == nil || !strings.Contains(err.Error(), tt.text) ||
				!strings.Contains(diag.HintOf(err), tt.hint) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("Keys = %q, %v (hint %q), want %v, %q and the hint %q", names(keys), err, diag.HintOf(err), tt.is,
					tt.text, tt.hint)
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\n\u202e") || diag.HintOf(err) == "") {
				t.Errorf("Keys = %q, want one line of plain text and a next step", err)
			}
			if tt.is == nil && (diag.CodeOf(err) != NoKeys || errors.Is(err, ErrUnreachable)) {
				t.Errorf("Keys = %v, want %s", err, NoKeys)
			}
		})
	}
}

// TestRedirectOfCase: a forge may send to the spelling of the name that it prefers.
func TestRedirectOfCase(t *testing.T) {
	source, _ := server(t, "gitlab", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/Alice.keys" {
			http.Redirect(w, r, "/Alice.keys", http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, keyOne)
	})
	if keys, err := source.Keys(context.Background(), "alice"); names(keys) != "ssh-ed25519 " || err != nil {
		t.Errorf("Keys = %q, %v, want one key", names(keys), err)
	}
}

// TestSigningListFails: with one list of GitHub's two the keys in it count, and that there may be more is told.
func TestSigningListFails(t *testing.T) {
	for _, answer := range []string{"limit", `{"message":"rate limit"}`, "[{]"} {
		source, _ := server(t, "github", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			switch {
			case r.URL.Path == "/alice.keys":
				io.WriteString(w, keyOne)
			case answer == "limit":
				w.WriteHeader(http.StatusTooManyRequests)
			default:
				io.WriteString(w, answer)
			}
		})
		keys, err := source.Keys(context.Background(), "alice")
		if names(keys) != "ssh-ed25519 authentication key" || !errors.Is(err, ErrUnreachable) {
			t.Errorf("Keys with the answer %q = %q, %v, want a key and %v", answer, names(keys), err, ErrUnreachable)
		}
	}
}

// TestTransport: certificates are verified, proxies are those of the environment, and what hangs is given up.
func TestTransport(t *testing.T) {
	source, s := server(t, "gitlab", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow.keys" {
			<-r.Context().Done()
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, keyOne)
	})
	source.timeout = 20 * time.Millisecond
	_, err := source.Keys(context.Background(), "slow")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no answer within 20ms") {
		t.Errorf("Keys of a forge that hangs = %v, want %v", err, ErrUnreachable)
	}
	source.timeout = timeout
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := source.Keys(cancelled, "alice"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Keys after the caller gave up = %v, want %v", err, ErrUnreachable)
	}

	usual, err := Online("gitlab", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := usual.Keys(context.Background(), "alice"); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("Keys of a server with a certificate of its own = %v, want %v", err, ErrUnreachable)
	}
	transport, ok := usual.(*online).client.Transport.(*http.Transport)
	if !ok || transport.Proxy == nil {
		t.Error("the usual transport has no proxy function: HTTPS_PROXY would not be honoured")
	}

	s.Close()
	if _, err := source.Keys(context.Background(), "alice"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Keys of a server that is gone = %v, want %v", err, ErrUnreachable)
	}
}

// TestOnlineFaults: addresses that are none.
func TestOnlineFaults(t *testing.T) {
	for _, tt := range []struct{ kind, base, hint string }{
		{"githab", "", "did you mean github"},
		{"bitbucket", "", "the kinds are forgejo, gitea, github, gitlab, sourcehut"},
		{"github", "http://github.com", "give an address like"},
		{"github", "github.com", "give an address like"},
		{"github", "https://user:token@github.com", "give an address like"},
		{"github", "https://", "give an address like"},
		{"github", "https://github.com/?x=y", "give an address like"},
		{"github", "https://github.com/#x", "give an address like"},
		{"github", "https://git\nhub.com", "give an address like"},
	} {
		_, err := Online(tt.kind, tt.base, nil)
		hint := diag.HintOf(err)
		if diag.CodeOf(err) != BadForge || !strings.Contains(hint, tt.hint) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Online(%q, %q) = %v (hint %q), want %s with %q", tt.kind, tt.base, err, hint, BadForge, tt.hint)
		}
	}
}

// TestFolder: a folder of NAME.keys works without any network.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"alice": keyOne + "\n# x\n" + keyTwo, "weak": "ssh-dss AAAA", "empty": "",
		"large": strings.Repeat("#\n", maxList/2+1)} {
		if err := os.WriteFile(filepath.Join(dir, name+".keys"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	keys, err := Folder(dir).Keys(context.Background(), "alice")
	if len(keys) != 2 || err != nil {
		t.Errorf("Keys = %q, %v, want two keys", names(keys), err)
	}
	for _, tt := range []struct {
		dir, user string
		code      diag.Code
		is        error
	}{
		{dir, "weak", NoKeys, nil},
		{dir, "empty", NoKeys, nil},
		{dir, "bob", NoUser, ErrNoUser},
		{dir, "large", Unreachable, ErrUnreachable},
		{dir, "folder", Unreachable, ErrUnreachable},
		{filepath.Join(dir, "missing"), "alice", Unreachable, ErrUnreachable},
	} {
		keys, err := Folder(tt.dir).Keys(context.Background(), tt.user)
		wrong := slices.Contains([]error{ErrNoUser, ErrUnreachable}, tt.is) && !errors.Is(err, tt.is)
		if len(keys) != 0 || diag.CodeOf(err) != tt.code || wrong || diag.HintOf(err) == "" {
			t.Errorf("Keys(%q) = %q, %v, want %s", tt.user, names(keys), err, tt.code)
		}
	}
}
