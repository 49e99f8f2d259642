package oracle_test

import (
	"os"
	"strconv"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/testkit/honest"
)

// computes returns the names that the attribute compute of op has beside its default, and the types each applies to.
func computes(op *oracle.Op) map[string][]dtype.DType {
	out := map[string][]dtype.DType{}
	a, _ := op.Schema.Attr("compute")
	for _, d := range op.Schema.AllowedDTypes() {
		for _, v := range a.Values {
			switch {
			case v == "storage" && (d == dtype.Float16 || d == dtype.BFloat16), v == "tf32" && d == dtype.Float32:
				out[v.(string)] = append(out[v.(string)], d)
			}
		}
	}
	return out
}

// TestNamedPrecisionsKeepTheirBound runs every op in every precision that has a name, in styles that use what it
// permits: results rounded to the case's type, operands truncated or rounded to TF32.
func TestNamedPrecisionsKeepTheirBound(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 24
	}
	if s := os.Getenv("GPUEMU_SOAK"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	var values []string
	for _, v := range gen.ValueDistributions() {
		values = append(values, v.Name)
	}
	for _, op := range oracle.Ops() {
		for compute, types := range computes(op) {
			for _, d := range types {
				t.Run(op.Name+"/"+compute+"/"+d.String(), func(t *testing.T) {
					t.Parallel()
					soakPrecision(t, op, d, compute, n, values)
				})
			}
		}
	}
}

func soakPrecision(t *testing.T, op *oracle.Op, d dtype.DType, compute string, n int, values []string) {
	styles := honest.PrecisionStyles(compute)
	ts := newTrials(op, d, values...)
	ts.attrs = opspec.Attrs{"compute": compute}
	bad := 0
	for i := range n {
		tr, err := ts.next(i)
		if err != nil {
			t.Fatal(err)
		}
		style := styles[i/len(values)%len(styles)]
		if n < len(values)*len(styles) {
			style = styles[i%len(styles)]
		}
		out, err := tr.run(style, tr.c.Seed)
		if err != nil {
			t.Fatalf("%s: %v", tr.c, err)
		}
		j, err := tr.judge(out)
		if err != nil {
			t.Fatalf("%s: %v", tr.c, err)
		}
		if j.bad != nil {
			t.Errorf("style %+v\ncase %s\noutput %q\n%s", style, tr.c, j.output, brief(j.bad))
			if bad++; bad == 3 {
				return
			}
		}
	}
}
