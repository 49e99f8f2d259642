package gen_test

import (
	"reflect"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// TestCatalogue: every operator of the catalogue gets cases from every strategy, and its own schema accepts them.
func TestCatalogue(t *testing.T) {
	if len(oracle.Ops()) == 0 {
		t.Fatal("the catalogue is empty")
	}
	for _, op := range oracle.Ops() {
		t.Run(op.Name, func(t *testing.T) {
			s := op.Schema
			for _, shapes := range gen.ShapeStrategies() {
				st := gen.Strategy{Shapes: shapes.Name, Layouts: tensor.Layouts(), DTypes: s.AllowedDTypes(), MaxElems: 1 << 14}
				stream, err := gen.Cases(s, st, 1)
				if diag.CodeOf(err) == gen.NoEmptyDim {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				n := 12
				if testing.Short() {
					n = 3
				}
				for i := range n {
					c, err := stream.Case(i)
					if err != nil {
						t.Fatalf("%s: %v", shapes.Name, err)
					}
					checkCase(t, s, stream, c)
				}
			}
		})
	}
}

func checkCase(t *testing.T, s *opspec.Schema, stream *gen.Stream, c opspec.Case) {
	t.Helper()
	back, err := opspec.ParseCase(c.String())
	if err != nil {
		t.Fatalf("ParseCase(%s) = %v", c, err)
	}
	inputs, err := gen.Inputs(s, back)
	if err != nil {
		t.Fatalf("Inputs(%s) = %v", c, err)
	}
	if own, err := stream.Inputs(c); err != nil || !reflect.DeepEqual(own, inputs) {
		t.Errorf("the stream gives other inputs for %s, %v", c, err)
	}
	shapes := map[string]tensor.Shape{}
	for name, x := range inputs {
		shapes[name] = x.Shape
	}
	dims, err := s.Bind(shapes, c.AttrMap())
	if err != nil {
		t.Fatalf("Bind of the inputs of %s = %v", c, err)
	}
	for _, d := range c.Dims {
		if dims[d.Name] != d.Value {
			t.Errorf("%s: Bind gives %s = %d", c, d.Name, dims[d.Name])
		}
	}
}
