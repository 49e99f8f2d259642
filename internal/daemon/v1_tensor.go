package daemon

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

// This file implements tensors and fuzzer configurations of protocol v1 as those of the domain, and back.

// tensorOfV1 checks a tensor that came from outside: dtype, shape, and as many bytes as both demand. Strides are not
// read: data is contiguous. Short names of dtypes (f32) are accepted.
func tensorOfV1(t *wire.TensorData) (*tensor.Tensor, error) {
	d, err := dtype.Parse(t.DType)
	if err != nil {
		return nil, fmt.Errorf("dtype: %w", err)
	}
	shape, err := tensor.ParseShape([]int64(t.Shape))
	if err != nil {
		return nil, err
	}
	return tensor.FromBytes(d, shape, t.Data)
}

// tensorsOfV1 returns the tensors of a request in the order of their names.
func tensorsOfV1(field string, given map[string]wire.TensorData) ([]tensor.Named, error) {
	var out []tensor.Named
	for _, name := range slices.Sorted(maps.Keys(given)) {
		data := given[name]
		t, err := tensorOfV1(&data)
		if err != nil {
			return nil, v1Invalid(field+"."+name, err)
		}
		out = append(out, tensor.Named{Name: name, Tensor: t})
	}
	return out, nil
}

// v1DType is the name of a dtype on the wire. v1 has no fp8: its elements travel as the bytes they are.
func v1DType(d dtype.DType) string {
	if d == dtype.Float8E4M3FN || d == dtype.Float8E5M2 {
		return dtype.Uint8.String()
	}
	return d.String()
}

// v1Tensors makes tensors for a reply, contiguous.
func v1Tensors(inputs map[string]*tensor.Tensor) (map[string]wire.TensorData, error) {
	out := make(map[string]wire.TensorData, len(inputs))
	total := 0
	for name, t := range inputs {
		if total += t.Elems() * t.DType.Size(); total > maxV1TensorBytes {
			return nil, v1Error(wire.V1InvalidRequest, "the inputs of the case have more than %d bytes, which one reply "+
				"cannot hold; gpuemu reproduce --export writes them to a file", maxV1TensorBytes)
		}
		out[name] = wire.TensorData{Shape: v1Dims(t.Shape), Strides: v1Int64s(t.Shape.Strides()), DType: v1DType(t.DType),
			Data: t.Bytes()}
	}
	return out, nil
}

func v1Int64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}

func v1Dims(s []int) wire.Dims { return v1Int64s(s) }

func v1Ints(list wire.Dims) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = int(n)
	}
	return out
}

// fuzzConfigOfV1 reads a configuration of the published fuzzer. names are the op's inputs. With a schema that has
// others, those of the schema are used instead: a shape for an input that does not exist would be no use.
func fuzzConfigOfV1(c *wire.V1FuzzConfig, names []string) (gen.FuzzConfig, error) {
	out := gen.FuzzConfig{Inputs: names, Shapes: gen.ShapeOptions{
		BatchSizes: v1Ints(c.ShapeOptions.BatchSizes), SeqLengths: v1Ints(c.ShapeOptions.SeqLengths),
		HiddenDims: v1Ints(c.ShapeOptions.HiddenDims),
	}}
	for _, edge := range c.ShapeOptions.EdgeCases {
		out.Shapes.EdgeCases = append(out.Shapes.EdgeCases, v1Ints(edge))
	}
	for i, name := range c.DTypes {
		d, err := dtype.Parse(name)
		if err != nil {
			return out, v1Invalid(fmt.Sprintf("fuzz_config.dtypes[%d]", i), err)
		}
		out.DTypes = append(out.DTypes, d)
	}
	for i, name := range c.Layouts {
		l, err := tensor.ParseLayout(strings.ToLower(string(name)))
		if err != nil {
			return out, v1Invalid(fmt.Sprintf("fuzz_config.layouts[%d]", i), err)
		}
		out.Layouts = append(out.Layouts, l)
	}
	if c.OpSchema == nil {
		return out, nil
	}
	schema, own, err := schemaOfV1(c.OpSchema)
	if err != nil {
		return out, err
	}
	out.Schema = schema
	if slices.ContainsFunc(own, func(n string) bool { return !slices.Contains(names, n) }) {
		out.Inputs = own
	}
	return out, nil
}

// schemaOfV1 is an op_schema and the names of its inputs. It is not checked as a schema of ours would be: the published
// fuzzer takes a dimension it does not know for 1.
func schemaOfV1(s *wire.V1OpSchema) (*opspec.Schema, []string, error) {
	out := &opspec.Schema{Name: s.Name}
	for i := range s.Dims {
		out.Dims = append(out.Dims, opspec.Dim{Name: s.Dims[i].Name, Candidates: v1Ints(s.Dims[i].Candidates)})
	}
	var names []string
	for i := range s.Inputs {
		in := &s.Inputs[i]
		field := fmt.Sprintf("fuzz_config.op_schema.inputs[%d]", i)
		switch {
		case in.Name == "":
			return nil, nil, v1Error(wire.V1InvalidRequest, "Invalid request: %s: the name is empty", field)
		case slices.Contains(names, in.Name):
			return nil, nil, v1Error(wire.V1InvalidRequest, "Invalid request: %s: there are two inputs %q", field, in.Name)
		}
		names = append(names, in.Name)
		out.Inputs = append(out.Inputs, opspec.Input{Name: in.Name, Dims: in.Dims})
	}
	if s.Output != nil {
		out.Outputs = []opspec.Output{{Name: s.Output.Name, Dims: s.Output.Dims}}
	}
	return out, names, nil
}

// maxV1Snapshot is the largest snapshot of inputs that a result carries.
const maxV1Snapshot = 64 << 10

// v1SnapshotTypes are the numbers of the dtypes in a snapshot; fp8 has none.
var v1SnapshotTypes = []dtype.DType{
	dtype.Float16, dtype.BFloat16, dtype.Float32, dtype.Float64, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64,
	dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64, dtype.Bool,
}

// v1Snapshot is the published binary form of inputs: a count, and per tensor name, shape, strides, dtype and bytes, all
// little-endian. It is nil where it would be larger than maxV1Snapshot.
func v1Snapshot(c opspec.Case, inputs map[string]*tensor.Tensor) *[]byte {
	le := binary.LittleEndian
	out := le.AppendUint16(nil, uint16(len(c.Inputs)))
	for i := range c.Inputs {
		name := c.Inputs[i].Name
		t := inputs[name]
		if t == nil || len(out)+len(name)+t.Elems()*t.DType.Size() > maxV1Snapshot {
			return nil
		}
		number := slices.Index(v1SnapshotTypes, t.DType)
		if number < 0 {
			return nil
		}
		out = append(le.AppendUint16(out, uint16(len(name))), name...)
		for _, list := range [][]int{t.Shape, t.Shape.Strides()} {
			out = le.AppendUint16(out, uint16(len(list)))
			for _, n := range list {
				out = le.AppendUint32(out, uint32(n))
			}
		}
		data := t.Bytes()
		out = le.AppendUint32(append(out, byte(number)), uint32(len(data)))
		out = append(out, data...)
	}
	return &out
}
