package gen

import (
	"bytes"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
)

// Drawing ranks changes neither dimensions nor attributes nor values of a case, and what is drawn can be made again
// from its text and is bound by the oracle to as many rows.
func TestRanksChangeNothingElse(t *testing.T) {
	some := 0
	for _, op := range oracle.Ops() {
		plain, err := Cases(op.Schema, Strategy{}, 3)
		if err != nil {
			t.Fatal(err)
		}
		ranked, err := Cases(op.Schema, Strategy{Ranks: []int{1, 2, 3, 4, 5}}, 3)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for i := range 60 {
			want, err := plain.Case(i)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ranked.Case(i)
			if err != nil {
				t.Fatal(err)
			}
			again, err := opspec.ParseCase(got.String())
			if err != nil {
				t.Fatal(err)
			}
			a, err := Inputs(op.Schema, want)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Inputs(op.Schema, again)
			if err != nil {
				t.Fatalf("%s: %v", got, err)
			}
			for k := range want.Inputs {
				name := want.Inputs[k].Name
				if g, w := got.Inputs[k], want.Inputs[k]; g.Shape.Elems() != w.Shape.Elems() || g.Values != w.Values {
					t.Errorf("%s: input %q of shape %s and values %s, want %d elements, %s", got, name, g.Shape, g.Values,
						w.Shape.Elems(), w.Values)
				}
				broadcast := got.Inputs[k].Layout != want.Inputs[k].Layout // one of both may repeat a slice
				if !broadcast && !bytes.Equal(a[name].Bytes(), b[name].Bytes()) {
					t.Errorf("%s: input %q has other values than without ranks", got, name)
				}
			}
			if _, _, err := oracle.Arrange(op, b, withDefaults(op.Schema, got.Attrs)); err != nil {
				t.Errorf("%s: %v", got, err)
			}
			rank := len(got.Inputs[0].Shape)
			seen[rank] = true
			if rank != len(want.Inputs[0].Shape) {
				some++
			}
			got.Inputs = want.Inputs
			if got.String() != want.String() {
				t.Errorf("case %s, want %s", got, want)
			}
		}
		if op.Family == "activation" && len(seen) < 5 {
			t.Errorf("%s: ranks %v, want all of 1 to 5", op.Name, seen)
		}
	}
	if some < 1000 {
		t.Errorf("%d cases have another rank than without ranks, want at least 1000", some)
	}
}

func TestRanksRefused(t *testing.T) {
	op, _ := oracle.Lookup("relu")
	for _, ranks := range [][]int{{-1}, {9}} {
		if _, err := Cases(op.Schema, Strategy{Ranks: ranks}, 1); diag.CodeOf(err) != BadStrategy {
			t.Errorf("ranks %v: %v, want %s", ranks, err, BadStrategy)
		}
	}
}
