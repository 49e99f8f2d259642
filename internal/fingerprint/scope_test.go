package fingerprint

import (
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// TestParseScope: rows B3 and B4. The paths of a receipt are its signer's: patterns, options and places outside are
// not taken.
func TestParseScope(t *testing.T) {
	for _, tt := range []struct{ in, want []string }{
		{[]string{"tests", "src"}, []string{"src", "tests"}},
		{[]string{"src/", "./src", "src//", "src/./"}, []string{"src"}},
		{[]string{"."}, []string{"."}},
		{[]string{"a b", "ü", "x..y", ".github", "a-b", "ab:c"}, []string{".github", "a b", "a-b", "ab:c", "x..y", "ü"}},
	} {
		got, err := ParseScope(tt.in)
		if err != nil || !slices.Equal(got.Paths(), tt.want) {
			t.Errorf("ParseScope(%q) = %q, %v, want %q", tt.in, got.Paths(), err, tt.want)
		}
	}
	for _, bad := range []string{"", "/dev", "/", "~", "~/x", "..", "../x", "a/../b", "a/..", "--format=x", "-z",
		":!src/x", ":(glob)**", ":/", "src/*.py", "a?", "[ab]", `a\b`, "a\nb", "a\x00b", "a\x7fb", "\xff", "a\u202eb",
		".git", "a/.GIT/x",
		`C:\x`, "c:/x", strings.Repeat("x", 5000)} {
		if got, err := ParseScope([]string{"src", bad}); diag.CodeOf(err) != BadScope {
			t.Errorf("ParseScope(%.50q) = %q, %v, want code %s", bad, got.Paths(), err, BadScope)
		} else if diag.HintOf(err) == "" || len(err.Error()) > 400 {
			t.Errorf("ParseScope(%.50q): %v: no hint, or too long", bad, err)
		}
	}
	if _, err := ParseScope(nil); diag.CodeOf(err) != EmptyScope {
		t.Errorf("ParseScope(nil): %v, want code %s", err, EmptyScope)
	}
	if _, err := ParseScope(make([]string, maxScopePaths+1)); diag.CodeOf(err) != BadScope {
		t.Errorf("ParseScope of too many: %v, want code %s", err, BadScope)
	}
}

func TestScopeContains(t *testing.T) {
	s := scope(t, "src", "tests/unit")
	for p, want := range map[string]bool{"src": true, "src/a": true, "srcs": false, "src2/a": false, "tests": false,
		"tests/unit/a": true, "tests/units": false, "x/src": false, "": false} {
		if got := s.Contains(p); got != want {
			t.Errorf("Contains(%q) = %v, want %v", p, got, want)
		}
	}
	if !s.Equal(scope(t, "tests/unit", "src")) || s.Equal(All()) {
		t.Error("Equal is wrong")
	}
}
