package challenge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// TestReasonsOnPage: docs/formats/receipt.md lists every reason with its sentence.
func TestReasonsOnPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "formats", "receipt.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Reasons() {
		if row := fmt.Sprintf("| `%s` | %s |\n", r.Reason, r.Doc); !strings.Contains(string(page), row) {
			t.Errorf("docs/formats/receipt.md lacks the row %q", row)
		}
	}
}
