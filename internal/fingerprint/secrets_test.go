package fingerprint

import (
	"slices"
	"testing"
)

// home is where Linux keeps the folders of users.
const home = "/ho" + "me/"

// TestStripURL: row A15, credentials of the origin URL in a file that is safe to commit.
func TestStripURL(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"https://github.com/o/r.git", "https://github.com/o/r.git"},
		{"https://x-access-token:ghs_abc@github.com/o/r", "https://github.com/o/r"},
		{"https://token@github.com/o/r", "https://github.com/o/r"},
		{"HTTPS://u:p@host:8443/o/r?private_token=x#frag", "https://host:8443/o/r"},
		{"https://u:p@ss@host/o", "https://host/o"},
		{"https://u:p%40ss@host/o", "https://host/o"},
		{`https://u:p\@host/o`, "https://host/o"},
		{"https://u:p/w@host/o", "https://host/o"},
		{"https://host/o/r@v1", "https://host/o/r@v1"},
		{"https://[::1]:8443/o/r", "https://[::1]:8443/o/r"},
		{`C:\Users\someone\r`, `~\r`},
		{"https:///u:p@host/o", "https://host/o"},
		{"https:/u:p@host/o", "https://host/o"},
		{"git@github.com:o/r.git", "git@github.com:o/r.git"},
		{"token@host:o/r.git", "host:o/r.git"},
		{"u:p@host:o/r.git", "host:o/r.git"},
		{"ssh://git@github.com:22/o/r", "ssh://git@github.com:22/o/r"},
		{"ssh://me:pw@host/o", "ssh://host/o"},
		{"ext::https://u:p@host/o", "https://host/o"},
		{"\nhttps://u:p@ho\x00st/o\x1b[31m", "https://host/o[31m"},
		{home + "someone/r", "~/r"},
		{"file://" + home + "someone/r", "file://~/r"},
		{"", ""},
	} {
		if got := StripURL(tt.in); got != tt.want {
			t.Errorf("StripURL(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestRemote(t *testing.T) {
	c := newClone(t)
	if got := c.open().Remote(); got != "" {
		t.Errorf("Remote() = %q without a remote", got)
	}
	c.git("remote", "add", "origin", "https://x-access-token:ghs_secret@example.com/o/r.git?t=secret")
	c.git("config", "url.https://evil:secret@example.org/.insteadOf", "https://x-access-token")
	if got, want := c.open().Remote(), "https://example.com/o/r.git"; got != want {
		t.Errorf("Remote() = %q, want %q", got, want)
	}
}

func TestStripSecrets(t *testing.T) {
	t.Setenv("HOME", home+"me")
	in := []string{"tests", "--token=abc", "--api-key", "abc", "-k", "x and y", "--password", "--index=https://u:p@host/x",
		"ghp_0123456789abcdef0123", home + "me/repo/tests", home + "other/x", "GH_TOKEN=x", "-o", "addopts=--secret=s3cret v"}
	want := []string{"tests", "--token=***", "--api-key", "***", "-k", "x and y", "--password", "--index=https://host/x",
		"***", "~/repo/tests", "~/x", "GH_TOKEN=***", "-o", "addopts=--secret=*** v"}
	if got := StripSecrets(in); !slices.Equal(got, want) {
		t.Errorf("StripSecrets\n got %q\nwant %q", got, want)
	}
}
