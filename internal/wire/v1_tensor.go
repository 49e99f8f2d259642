package wire

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
)

// This file implements tensors and numbers of protocol v1.

// Dims is a list of sizes: integers that are not negative.
type Dims []int64

var dimsType = reflect.TypeFor[Dims]()

// F64 is a number that is null in JSON when it is not finite, and has a point or an exponent otherwise, so that Python
// reads a float also for 0.
type F64 float64

// MarshalJSON writes the shortest text that reads back as the same number.
func (f F64) MarshalJSON() ([]byte, error) {
	x := float64(f)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	format := byte('f')
	if abs := math.Abs(x); abs != 0 && (abs < 1e-5 || abs >= 1e16) {
		format = 'e'
	}
	out := strconv.AppendFloat(nil, x, format, -1, 64)
	if format == 'f' && !slices.Contains(out, '.') {
		out = append(out, '.', '0')
	}
	return out, nil
}

// TensorData is a tensor in base64. Data is contiguous in row-major order and little-endian. Strides say nothing of
// Data: the published client sends those of the array it copied from, in bytes and maybe negative. They are not read.
type TensorData struct {
	Shape   Dims    `json:"shape"`
	Strides []int64 `json:"strides"`
	DType   string  `json:"dtype"`
	Data    []byte  `json:"data"`
}

// v1ItemSize is the size of one element by dtype; the dtypes of protocol v1 and no others.
var v1ItemSize = map[string]int64{
	"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
	"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}

// NewTensorData makes a tensor of contiguous data, with the element strides that belong to it, and checks it.
func NewTensorData(shape []int64, dtype string, data []byte) (TensorData, error) {
	t := TensorData{Shape: slices.Clone(shape), Strides: make([]int64, len(shape)), DType: dtype, Data: data}
	if err := t.Check(); err != nil {
		return TensorData{}, err
	}
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		t.Strides[i] = step
		step *= max(shape[i], 1)
	}
	return t, nil
}

// Check says whether Data is as long as Shape and DType demand.
func (t TensorData) Check() error {
	size, ok := v1ItemSize[t.DType]
	if !ok {
		return fmt.Errorf("unknown dtype %q", t.DType)
	}
	want, empty := uint64(size), false
	for _, n := range t.Shape {
		if n < 0 {
			return fmt.Errorf("shape %v has a negative dimension", t.Shape)
		}
		// Without the zeros: the strides of an empty tensor are products of the others.
		high, low := bits.Mul64(want, uint64(max(n, 1)))
		if high != 0 || low > math.MaxInt64 {
			return fmt.Errorf("shape %v is too large", t.Shape)
		}
		want, empty = low, empty || n == 0
	}
	if empty {
		want = 0
	}
	if uint64(len(t.Data)) != want {
		return fmt.Errorf("%d bytes of data, want %d for %s of shape %v", len(t.Data), want, t.DType, t.Shape)
	}
	return nil
}
