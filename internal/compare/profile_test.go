package compare

import (
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/testkit"
)

type profileVector struct {
	Name   string             `json:"name"`
	Values map[string]float64 `json:"values"` // by dtype; atol and rtol are the same
}

// TestProfileVectors: the Python package prints the same tolerances, and has a table of its own.
func TestProfileVectors(t *testing.T) {
	file := testkit.Read[struct {
		Format   string          `json:"format"`
		Profiles []profileVector `json:"profiles"`
	}](t, "tolerance/profiles-v1.json")
	if len(file.Profiles) != len(Profiles()) {
		t.Errorf("the vectors have %d profiles, this package has %d", len(file.Profiles), len(Profiles()))
	}
	testkit.EachOf(t, "profiles", file.Profiles, func(t *testing.T, v profileVector) {
		p, err := LookupProfile(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dtype.All() {
			if got, want := p.For(d), v.Values[d.String()]; got != (Tolerance{want, want}) {
				t.Errorf("profile %s, %s: %v, want %v for both parts", v.Name, d, got, want)
			}
		}
	})
}
