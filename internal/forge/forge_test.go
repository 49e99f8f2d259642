package forge

import (
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// TestCheckName: rows B2 and B15 of the security review. A name is never a path, a query, a fragment or a host, and
// never the word that stands for nobody.
func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "torvalds", "Alice-B", "corp_user", "john.doe", "0x", "a--b",
		strings.Repeat("a", 64)} {
		if err := CheckName(good); err != nil {
			t.Errorf("CheckName(%q) = %v, want none", good, err)
		}
	}
	for _, bad := range []string{"", "unknown", "Unknown", "x.keys#@torvalds", "owner/repo/raw/main/y", "../x", "..",
		".", "a..b", ".a", "a.", "-a", "a b", "a\n::error::x", "a%2fb", "a?b", "a@b", "a:b", "~a", "ä", "a\x00", "a\\b",
		strings.Repeat("a", 65)} {
		if err := CheckName(bad); diag.CodeOf(err) != BadName || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("CheckName(%q) = %v, want %s on one line", bad, err, BadName)
		}
	}
}
