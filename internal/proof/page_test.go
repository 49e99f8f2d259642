package proof

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

var (
	commandForm = regexp.MustCompile(`gpu-proof ([a-z]+)([^` + "`" + `\n]*)`)
	flagForm    = regexp.MustCompile(`--[a-z-]+`)
)

// TestPageCommands: every command and flag that the pages show is there.
func TestPageCommands(t *testing.T) {
	seen := 0
	for _, page := range []string{"docs/gpu-proof.md", "docs/receipts.md", "docs/formats/receipt.md",
		"python/pytest-gpu-proof/README.md"} {
		text, err := os.ReadFile(filepath.Join(testkit.Root(t), filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, m := range commandForm.FindAllStringSubmatch(joined, -1) {
			words := append([]string{m[1]}, strings.Fields(m[2])...)
			cmd, _, err := Commands().Find(words[:min(2, len(words))]) // policy init has two
			if err != nil || cmd.Name() == "gpu-proof" {
				continue // a sentence about the program
			}
			for _, name := range flagForm.FindAllString(strings.SplitN(m[2], "#", 2)[0], -1) {
				seen++
				if cmd.Flags().Lookup(name[2:]) == nil && name != "--help" {
					t.Errorf("%s: %q shows the flag %s, which %s does not have", page, m[0], name, cmd.CommandPath())
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d flags were found on the pages, want more: are they still read?", seen)
	}
}
