package gen_test

import (
	"slices"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/oracle"
	"gpuemu/internal/testkit"
)

// TestMostCasesAreDecided: a campaign ends with an error where the contract leaves more than one case in ten wholly
// open. So the default strategy keeps to half of that over several seeds, for every operator and dtype, and to one in
// ten for each seed.
func TestMostCasesAreDecided(t *testing.T) {
	testkit.ValuesOnly(t)
	const cases = 80
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			t.Run(op.Name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				all := 0
				for seed := range seeds {
					open := openCases(t, op, d, uint64(seed), cases)
					if all += open; open*10 > cases {
						t.Errorf("seed %d: %d of %d cases are wholly undetermined, want at most one in ten", seed, open, cases)
					}
				}
				t.Logf("%d of %d cases wholly undetermined", all, seeds*cases)
				if seeds > 1 && all*20 > seeds*cases { // one seed alone may have more
					t.Errorf("%d of %d cases are wholly undetermined, want at most one in twenty", all, seeds*cases)
				}
			})
		}
	}
}

// openCases counts the cases of which every element is undetermined.
func openCases(t *testing.T, op *oracle.Op, d dtype.DType, seed uint64, cases int) int {
	t.Helper()
	const maxElems = 2048 // what makes an element undetermined does not grow with the tensor, but the time does
	stream, err := gen.Cases(op.Schema, gen.Strategy{DTypes: []dtype.DType{d}, MaxElems: maxElems}, seed)
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for i := range cases {
		c, err := stream.Case(i)
		if err != nil {
			t.Fatal(err)
		}
		inputs, err := gen.Inputs(op.Schema, c)
		if err != nil {
			t.Fatalf("Inputs(%s) = %v", c, err)
		}
		want, err := oracle.Evaluate(op, inputs, c.AttrMap(), c.DType)
		if err != nil {
			t.Fatalf("Evaluate of %s = %v", c, err)
		}
		if undecided(want) {
			open++
		}
	}
	return open
}

// undecided reports whether there are elements and all are undetermined.
func undecided(want map[string]*compare.Want) bool {
	elems := 0
	for _, w := range want {
		elems += len(w.Value)
		if len(w.Value) > 0 && (w.Undetermined == nil || slices.Contains(w.Undetermined, false)) {
			return false
		}
	}
	return elems > 0
}
