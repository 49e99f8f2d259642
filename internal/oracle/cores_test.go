package oracle_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// TestAnyCores evaluates every op in every dtype on one core and on four: the values, the bounds and the undetermined
// elements have the same bits. The cases are large enough that the loops are divided. It is also what the race detector
// sees of the loops of each op.
func TestAnyCores(t *testing.T) {
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			t.Run(op.Name+"/"+d.String(), func(t *testing.T) {
				anyCores(t, op, d)
			})
		}
	}
}

// dividedCase is the size of the largest tensor of a case whose loops are divided. Scores are more than the inputs that
// they are made of.
func dividedCase(op *oracle.Op) int {
	if op.Family == "attention" {
		return 1 << 11
	}
	return 1 << 15
}

func anyCores(t *testing.T, op *oracle.Op, d dtype.DType) {
	for _, shapes := range []string{"large", "default"} {
		stream, err := gen.Cases(op.Schema, gen.Strategy{Shapes: shapes, Values: "mixed", DTypes: []dtype.DType{d},
			MaxElems: dividedCase(op), Layouts: []tensor.Layout{tensor.Contiguous}}, 7)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			c, err := stream.Case(i)
			if err != nil {
				t.Fatal(err)
			}
			inputs, err := gen.Inputs(op.Schema, c)
			if err != nil {
				t.Fatal(err)
			}
			one, four := onCores(t, 1, op, c, inputs), onCores(t, 4, op, c, inputs)
			for name, want := range one {
				if !bytes.Equal(four[name], want) {
					t.Errorf("%s: %s differs between one core and four", c, name)
				}
			}
		}
	}
}

// onCores returns what the oracle says of a case, byte for byte, when it has that many cores.
func onCores(
	t *testing.T, cores int, op *oracle.Op, c opspec.Case, inputs map[string]*tensor.Tensor,
) map[string][]byte {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	wants, err := oracle.Evaluate(op, inputs, c.AttrMap(), c.DType)
	if err != nil {
		t.Fatal(err)
	}
	common, err := oracle.Common(op, inputs, c.AttrMap(), c.DType)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for name, w := range wants {
		out[name] = wantBytes(t, w)
	}
	for name, values := range common {
		if out["common error of "+name], err = binary.Append(nil, binary.LittleEndian, values); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// wantBytes is the values, bounds and marks of w.
func wantBytes(t *testing.T, w *compare.Want) []byte {
	t.Helper()
	out, err := binary.Append(nil, binary.LittleEndian, w.Value)
	if err == nil {
		out, err = binary.Append(out, binary.LittleEndian, w.Bound)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.Value {
		mark := byte(0)
		if len(w.Undetermined) > 0 && w.Undetermined[i] {
			mark = 1
		}
		out = append(out, mark)
	}
	return out
}
