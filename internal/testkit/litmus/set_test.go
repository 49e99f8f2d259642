package litmus

import "testing"

// TestSet compares what authors say with what the axioms say, and makes sure that every defect has its twin.
func TestSet(t *testing.T) {
	programs, err := Set()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*Program{}
	fixed := map[string]bool{}
	for _, p := range programs {
		key := p.Family + "/" + p.Name
		if byName[key] != nil {
			t.Errorf("%s stands there twice", key)
		}
		byName[key] = p
	}
	count := map[Verdict]int{}
	for _, p := range programs {
		d, err := p.Decide()
		if err != nil {
			t.Error(err)
			continue
		}
		count[d.Verdict]++
		if p.Claim != Undecided && d.Verdict != p.Claim {
			t.Errorf("%s/%s: Decide() = %v (%s, %s), want %v", p.Family, p.Name, d.Verdict, d.First, d.Second, p.Claim)
		}
		if p.Fixes != "" {
			other := byName[p.Family+"/"+p.Fixes]
			if other == nil || other.Claim < SameValue || p.Claim >= SameValue {
				t.Errorf("%s/%s fixes %q, which is no defect", p.Family, p.Name, p.Fixes)
			}
			fixed[p.Family+"/"+p.Fixes] = true
		}
	}
	for key, p := range byName {
		if p.Claim >= SameValue && !fixed[key] {
			t.Errorf("%s has no twin", key)
		}
	}
	if len(fixed) < 60 {
		t.Errorf("%d defects with twins, want at least 60", len(fixed))
	}
	t.Logf("%d programs: %v; %d defects with twins", len(programs), count, len(fixed))
}
