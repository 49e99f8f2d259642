package policy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

var reasonForm = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*$`)

// reasonsHead and keysHead are what stands above the tables; single quotes stand for those of code.
const (
	reasonsHead = `# Why a receipt is refused, and what a policy may say

This page is generated from the declarations: 'make generate'.

## Reasons

Every refusal of 'gpu-proof verify' has a reason, which keeps its meaning for good. Some are warnings where a policy
allows what they tell; 'keys_unreachable' and 'repo_unreadable' mean that nothing is known (exit status 3).
`
	keysHead = `
## Keys of a policy

A policy is YAML, or JSON where its name ends in '.json'. Without a key its default counts, which is the strict one.
Unknown and repeated keys, anchors and aliases are errors. It is read from outside of the tree under test.

| key | also | meaning (default) |
|---|---|---|
`
)

// TestReasonsPage keeps docs/formats/receipt-reasons.md in step with the declared reasons and the keys of a policy.
func TestReasonsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(reasonsHead, "'", "`"))
	group := ""
	seen := map[string]bool{}
	for _, r := range reasons(t) {
		if r.group != group {
			group = r.group
			fmt.Fprintf(&b, "\n### %s\n\n| reason | meaning |\n|---|---|\n", strings.TrimSuffix(group, "."))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.code, strings.TrimSuffix(r.doc, "."))
		if seen[r.code] || !reasonForm.MatchString(r.code) || !strings.HasSuffix(r.doc, ".") {
			t.Errorf("%s: %q, %q: want a reason of its own in lower case, and a sentence", r.name, r.code, r.doc)
		}
		seen[r.code] = true
	}
	b.WriteString(strings.ReplaceAll(keysHead, "'", "`"))
	for _, k := range keyTable {
		also := ""
		if len(k.alias) > 0 {
			also = "`" + strings.Join(k.alias, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.name, also, k.doc)
	}
	testkit.Golden(t, "../../docs/formats/receipt-reasons.md", []byte(b.String()))
}
