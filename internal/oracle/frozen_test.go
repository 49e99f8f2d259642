package oracle_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/oracle"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// TestFrozenValuesAndVerdicts compares digests of values, bounds, marks and of the verdicts on a faulty implementation
// with those kept in testdata. They must not depend on the CPU, on GOAMD64 or on the number of workers; a change of a
// reference or a bound changes them on purpose (go test -run Frozen -update).
func TestFrozenValuesAndVerdicts(t *testing.T) {
	testkit.ValuesOnly(t)
	var b strings.Builder
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			values, verdicts := sha256.New(), sha256.New()
			ts := newTrials(op, d, "mixed", "normal", "adversarial", "offset")
			for i := range 24 {
				tr, err := ts.next(i)
				if err != nil {
					t.Fatal(err)
				}
				digest(values, tr)
				bad, err := tr.run(honest.Style{Fault: honest.DropLast}, tr.c.Seed)
				if err != nil {
					t.Fatal(err)
				}
				r := compareAs(t, tr, bad, compare.Bound, compare.Tolerance{})
				fmt.Fprintln(verdicts, r.Verdict, r.Counts, math.Float64bits(r.Stats.MaxAbs), math.Float64bits(r.Stats.MaxRatio))
			}
			fmt.Fprintf(&b, "%s %s values=%x verdicts=%x\n", op.Name, d, values.Sum(nil)[:8], verdicts.Sum(nil)[:8])
		}
	}
	testkit.Golden(t, "testdata/digests.golden", []byte(b.String()))
}

// digest adds everything the oracle says of a case.
func digest(h hash.Hash, tr *trial) {
	names := make([]string, 0, len(tr.want))
	for name := range tr.want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		w := tr.want[name]
		fmt.Fprintln(h, name, w.DType, w.Shape)
		for i, v := range w.Value {
			if v != v {
				v = math.NaN() // the payload of a NaN is no part of the answer
			}
			_ = binary.Write(h, binary.LittleEndian, math.Float64bits(v)) // a hash cannot fail
			_ = binary.Write(h, binary.LittleEndian, math.Float64bits(w.Bound[i]))
			if w.Undetermined != nil && w.Undetermined[i] {
				fmt.Fprint(h, "undetermined")
			}
		}
	}
}
