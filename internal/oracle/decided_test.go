package oracle_test

import (
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/gen"
	"gpuemu/internal/oracle"
	"gpuemu/internal/testkit"
)

// TestMostCasesAreDecided holds oracle and generator to what makes extreme values usable: under the default mix of
// values few cases may be left wholly open. A campaign ends with an error where more than one in ten is.
func TestMostCasesAreDecided(t *testing.T) {
	const cases = 120
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			t.Run(op.Name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				ts := newTrials(op, d, "mixed")
				ts.shapes = []string{"default"}
				open, undetermined, elems := 0, 0, 0
				for i := range cases {
					tr, err := ts.next(i)
					if err != nil {
						t.Fatal(err)
					}
					n, total := 0, 0
					for _, w := range tr.want {
						n += marks(w)
						total += len(w.Value)
					}
					if n == total && n > 0 {
						open++
					}
					undetermined += n
					elems += total
				}
				t.Logf("%s of elements undetermined, %d of %d cases wholly", percent(undetermined, elems), open, cases)
				if open*10 > cases {
					t.Errorf("%d of %d mixed cases are wholly undetermined, want at most one in ten", open, cases)
				}
			})
		}
	}
}

func marks(w *compare.Want) int {
	n := 0
	for _, u := range w.Undetermined {
		if u {
			n++
		}
	}
	return n
}

// TestAttentionIsMostlyDecided: rows without a visible key and scores that overflow are drawn, but rarely. Of what is
// computed, at least nine elements in ten are judged, over all cases and on average over the cases.
func TestAttentionIsMostlyDecided(t *testing.T) {
	testkit.ValuesOnly(t)
	const cases, most = 300, 0.10
	for _, op := range oracle.Ops() {
		if op.Family != "attention" || op.Name == "rope" {
			continue
		}
		for _, d := range op.Schema.AllowedDTypes() {
			t.Run(op.Name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				ts := newTrials(op, d, "mixed")
				ts.shapes, ts.limit = []string{"default"}, func(int) int { return 1 << 13 }
				undetermined, elems, share, unseen := 0, 0, 0.0, 0
				for i := range cases {
					tr, err := ts.next(i)
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range tr.want {
						undetermined += marks(w)
						elems += len(w.Value)
						share += float64(marks(w)) / float64(max(len(w.Value), 1)) / cases
					}
					dims := tr.c.DimMap()
					if dims["N"] < dims["M"] {
						unseen++
					}
				}
				t.Logf("%s of elements undetermined, %.1f %% of a case on average", percent(undetermined, elems), 100*share)
				if float64(undetermined) > most*float64(elems) || share > most {
					t.Errorf("%d of %d elements are undetermined, %.3f of a case on average, want at most %g", undetermined, elems,
						share, most)
				}
				if _, rows := op.Schema.Dim("M"); rows && unseen == 0 {
					t.Error("no case has fewer keys than rows")
				}
			})
		}
	}
}

// TestUndeterminedByDistribution logs, for each distribution, how much of each op is left open (go test -v).
func TestUndeterminedByDistribution(t *testing.T) {
	if !testing.Verbose() || testing.Short() {
		t.Skip("only a table for -v")
	}
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			line := ""
			for _, v := range gen.ValueDistributions() {
				ts := newTrials(op, d, v.Name)
				n, total := 0, 0
				for i := range 30 {
					tr, err := ts.next(i)
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range tr.want {
						n += marks(w)
						total += len(w.Value)
					}
				}
				if n*200 > total {
					line += " " + v.Name + "=" + percent(n, total)
				}
			}
			if line != "" {
				t.Log(op.Name, d, line)
			}
		}
	}
}
