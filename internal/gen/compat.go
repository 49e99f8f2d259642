// This file implements the published fuzzer: the same seeds, shapes, dtypes, layouts and bytes.

package gen

import (
	"encoding/binary"
	"math"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// FuzzConfig is a configuration of the published fuzzer. Its quirks are kept on purpose, because seeds in reports
// and bug trackers refer to them: layouts are labels on contiguous data, one shape serves every input when there is
// no schema, float16 is truncated, and bfloat16 holds float16 bits.
type FuzzConfig struct {
	Shapes  ShapeOptions
	DTypes  []dtype.DType
	Layouts []tensor.Layout // contiguous, strided or transposed
	Schema  *opspec.Schema  // nil: Shapes
	Inputs  []string        // nil: one input named "input"
}

// ShapeOptions are the shapes drawn without a schema.
type ShapeOptions struct {
	BatchSizes, SeqLengths, HiddenDims []int
	EdgeCases                          [][]int
}

// DefaultFuzzConfig returns the published fuzzer's defaults.
func DefaultFuzzConfig() FuzzConfig {
	return FuzzConfig{
		Shapes: ShapeOptions{
			BatchSizes: []int{1, 2, 4, 8},
			SeqLengths: []int{64, 128, 256, 512},
			HiddenDims: []int{512, 768, 1024},
			EdgeCases:  [][]int{{1}, {1, 1}, {1, 1, 1}},
		},
		DTypes:  []dtype.DType{dtype.Float32, dtype.Float16},
		Layouts: []tensor.Layout{tensor.Contiguous, tensor.Strided, tensor.Transposed},
	}
}

// FuzzCase is one case of the published fuzzer.
type FuzzCase struct {
	Seed   uint64
	DType  dtype.DType
	Layout tensor.Layout // a label: Data is always contiguous
	Shape  tensor.Shape  // the representative shape
	Inputs []FuzzInput
}

// FuzzInput is one input. Strides are what the label claims; Data is dense in row-major order.
type FuzzInput struct {
	Name    string
	Shape   tensor.Shape
	Strides []int
	Data    []byte
}

// Tensor returns the input as the contiguous tensor it is.
func (in *FuzzInput) Tensor(d dtype.DType) (*tensor.Tensor, error) {
	return tensor.FromBytes(d, in.Shape, in.Data)
}

// FuzzCaseSeed returns the seed of iteration i of a run of the published fuzzer.
func FuzzCaseSeed(master uint64, i int) uint64 {
	return rng.DeriveSeed(master, "iter_"+strconv.Itoa(i))
}

// Case returns iteration i of a run with that master seed.
func (c FuzzConfig) Case(master uint64, i int) (*FuzzCase, error) {
	return c.CaseOfSeed(FuzzCaseSeed(master, i))
}

// CaseOfSeed returns the case of a case seed, as printed in reports.
func (c FuzzConfig) CaseOfSeed(seed uint64) (*FuzzCase, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	root := rng.New(seed)
	out := &FuzzCase{Seed: seed}
	out.DType = c.DTypes[root.Derive("dtype").Intn(len(c.DTypes))]
	out.Layout = c.Layouts[root.Derive("layout").Intn(len(c.Layouts))]
	shapes, representative, err := c.shapes(root)
	if err != nil {
		return nil, err
	}
	out.Shape = representative
	for k, name := range c.inputNames() {
		shape := representative
		if s, ok := shapes[name]; ok {
			shape = s
		}
		if err := shape.CheckBytes(out.DType); err != nil {
			return nil, err
		}
		r := root.Derive("data").Derive("input_" + strconv.Itoa(k))
		out.Inputs = append(out.Inputs, FuzzInput{
			Name: name, Shape: shape, Strides: labelStrides(shape, out.Layout),
			Data: FuzzData(r, out.DType, shape.Elems()),
		})
	}
	return out, nil
}

func (c FuzzConfig) inputNames() []string {
	if c.Inputs == nil {
		return []string{"input"}
	}
	return c.Inputs
}

func (c FuzzConfig) check() error {
	fail := func(format string, args ...any) error { return diag.Errorf(BadFuzzConfig, "", format, args...) }
	o := &c.Shapes
	switch {
	case len(c.DTypes) == 0:
		return fail("dtypes: the list is empty")
	case len(c.Layouts) == 0:
		return fail("layouts: the list is empty")
	case c.Schema == nil && (len(o.BatchSizes) == 0 || len(o.SeqLengths) == 0 || len(o.HiddenDims) == 0):
		return fail("shape options: batch sizes, sequence lengths and hidden dims must not be empty")
	case len(c.inputNames()) > opspec.MaxInputs:
		return fail("%d inputs, limit %d", len(c.inputNames()), opspec.MaxInputs)
	}
	for _, d := range c.DTypes {
		if d == dtype.Float8E4M3FN || d == dtype.Float8E5M2 || d.Size() == 0 {
			return fail("dtypes: the published fuzzer has no %s", d)
		}
	}
	for _, l := range c.Layouts {
		if l != tensor.Contiguous && l != tensor.Strided && l != tensor.Transposed {
			return fail("layouts: the published fuzzer has no %s", l)
		}
	}
	return nil
}

// shapes returns the shapes of the schema's inputs and the shape of everything else.
func (c FuzzConfig) shapes(root *rng.RNG) (map[string]tensor.Shape, tensor.Shape, error) {
	r := root.Derive("shape")
	if c.Schema == nil {
		dims := c.Shapes.draw(r)
		s, err := tensor.ParseShape(dims)
		return nil, s, err
	}
	sizes := map[string]int{}
	for i := range c.Schema.Dims {
		d := &c.Schema.Dims[i]
		sizes[d.Name] = 1
		if len(d.Candidates) > 0 {
			sizes[d.Name] = d.Candidates[r.Derive(d.Name).Intn(len(d.Candidates))]
		}
	}
	shapeOf := func(names []string) (tensor.Shape, error) {
		dims := make([]int, len(names))
		for i, n := range names {
			dims[i] = 1 // unknown names are 1
			if v, ok := sizes[n]; ok {
				dims[i] = v
			}
		}
		return tensor.ParseShape(dims)
	}
	shapes := map[string]tensor.Shape{}
	representative := tensor.Shape{1}
	for i := range c.Schema.Inputs {
		in := &c.Schema.Inputs[i]
		s, err := shapeOf(in.Dims)
		if err != nil {
			return nil, nil, err
		}
		shapes[in.Name] = s
		if i == 0 {
			representative = s
		}
	}
	if len(c.Schema.Outputs) > 0 {
		s, err := shapeOf(c.Schema.Outputs[0].Dims)
		if err != nil {
			return nil, nil, err
		}
		representative = s
	}
	return shapes, representative, nil
}

// draw is the one stateful choice of the published fuzzer: all from one stream, in this order.
func (o *ShapeOptions) draw(r *rng.RNG) []int {
	if len(o.EdgeCases) > 0 && r.Bool(0.1) {
		return o.EdgeCases[r.Intn(len(o.EdgeCases))]
	}
	batch := o.BatchSizes[r.Intn(len(o.BatchSizes))]
	seq := o.SeqLengths[r.Intn(len(o.SeqLengths))]
	hidden := o.HiddenDims[r.Intn(len(o.HiddenDims))]
	return []int{batch, seq, hidden}
}

// labelStrides are the strides the published fuzzer writes beside contiguous data.
func labelStrides(s tensor.Shape, l tensor.Layout) []int {
	strides := s.Strides()
	switch {
	case l == tensor.Strided:
		for i := range strides {
			strides[i] *= 2
		}
	case l == tensor.Transposed && len(s) >= 2:
		swapped := append(tensor.Shape{}, s...)
		n := len(swapped)
		swapped[n-1], swapped[n-2] = swapped[n-2], swapped[n-1]
		strides = swapped.Strides()
	}
	return strides
}

// FuzzData returns n elements as the published fuzzer draws them: floats in [-10,10), signed integers in
// [-100,100), unsigned ones from the low bits, booleans with even odds.
func FuzzData(r *rng.RNG, d dtype.DType, n int) []byte {
	size := d.Size()
	out := make([]byte, n*size)
	for i := range n {
		e := out[i*size:]
		switch {
		case d.IsFloat():
			d.Store(e, fuzzFloat(d, balanced(r.Float64())*usualHalf))
		case d == dtype.Bool:
			if r.Bool(0.5) {
				e[0] = 1
			}
		case d.IsSigned():
			d.Store(e, r.Range(0, 200)-100) // two's complement: the low bytes are right in every width
		default:
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], r.Uint64())
			copy(e[:size], word[:])
		}
	}
	return out
}

func fuzzFloat(d dtype.DType, x float64) uint64 {
	switch d {
	case dtype.Float64:
		return math.Float64bits(x)
	case dtype.Float32:
		return uint64(math.Float32bits(float32(x)))
	}
	return uint64(truncateToHalf(float32(x))) // float16, and bfloat16 too
}

// truncateToHalf drops bits instead of rounding; what is below the normal range becomes a signed zero, what is above
// an infinity.
func truncateToHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	exp := int(b>>23&0xff) - 127 + 15
	switch {
	case exp <= 0:
		return sign
	case exp >= 31:
		return sign | 0x7c00
	}
	return sign | uint16(exp)<<10 | uint16(b>>13&0x3ff)
}
