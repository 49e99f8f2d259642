package litmus

import (
	"os"
	"testing"
)

// TestPublished compares outcomes with those that the chapter of the PTX ISA and the paper name: it is what the checker
// itself is held to.
func TestPublished(t *testing.T) {
	text, err := os.ReadFile("testdata/published.litmus")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := Parse("published", string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(programs) < 50 {
		t.Fatalf("%d programs, want at least 50", len(programs))
	}
	for _, p := range programs {
		got, err := p.Allowed(p.Outcome)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := p.Claim == Race; got != want || len(p.Outcome) == 0 {
			t.Errorf("%s: Allowed(%v) = %v, want %v", p.Name, p.Outcome, got, want)
		}
	}
}
