package campaign

import (
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/testkit/subtle"
	"gpuemu/internal/verdict"
)

// onePassLeast is in how many of 100 mixed cases a variance of one pass fails at least, on the average of three seeds.
const onePassLeast = 10

// TestOnePassVariance counts the cases that show a variance of one pass: mean of squares minus square of the mean. Not
// in bfloat16, where values far from zero are so far apart that its error is mostly below the rounding of the output.
// That holds for groupnorm in float16, too, unless moments = "acc": the mean may be rounded to the type of the case
// there.
func TestOnePassVariance(t *testing.T) {
	if testing.Short() {
		t.Skip("5 s, and ten times that under the race detector; it starts no goroutine")
	}
	for _, f := range subtle.Faults() {
		if f.Name != "one-pass variance" {
			continue
		}
		var attrs opspec.Attrs
		if f.Op == "groupnorm" {
			attrs = opspec.Attrs{"moments": "acc"}
		}
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float16} {
			t.Run(f.Op+"/"+d.String(), func(t *testing.T) {
				const seeds = 3
				found := 0
				for seed := uint64(1); seed <= seeds; seed++ {
					st := gen.Strategy{DTypes: []dtype.DType{d}, MaxElems: 1 << 16, Attrs: attrs}
					found += onePassFailures(t, f, st, seed)
				}
				t.Logf("%d of %d cases fail", found, seeds*subtleCases)
				if found < seeds*onePassLeast*subtleCases/100 {
					t.Errorf("%d of %d cases fail, want at least %d %%", found, seeds*subtleCases, onePassLeast)
				}
			})
		}
	}
}

// onePassFailures returns how many of subtleCases cases fail.
func onePassFailures(t *testing.T, f subtle.Fault, st gen.Strategy, seed uint64) (found int) {
	s, _ := catalogueSubject(nil, f.Op)
	s.workers = 1
	stream, err := gen.Cases(s.schema, st, seed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range subtleCases {
		c, err := stream.Case(i)
		if err != nil {
			t.Fatal(err)
		}
		inputs, err := stream.Inputs(c)
		if err != nil {
			t.Fatal(err)
		}
		wants, err := s.evaluate(c, inputs)
		if err != nil {
			t.Fatal(err)
		}
		if (&subtleTrial{t, s, c, inputs, wants}).judge(f.Faulty).Verdict == verdict.Fail {
			found++
		}
		for _, w := range wants {
			oracle.Release(w.want)
		}
	}
	return found
}
