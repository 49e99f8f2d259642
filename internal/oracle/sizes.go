// This file implements the sizes of a call: dimensions and shapes of outputs, which follow from those of the inputs.

package oracle

import (
	"math"
	"strconv"
	"sync"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// sizes are what shapes and attributes determine. Calls share them and must not change them.
type sizes struct {
	dims     map[string]int
	arranged *opspec.Arrangement
}

// sizesCache keeps sizes by what they follow from. Thousands of cases have a few dozen shapes, and of a small case it
// takes as long to find its dimensions as to compute it.
type sizesCache struct {
	mu    sync.RWMutex
	known map[string]*sizes // guarded by mu
}

// maxSizes is how many sizes an op keeps: other work has other shapes, so they are forgotten together.
const maxSizes = 512

// sizesOf binds the dimensions of op to the shapes of inputs, none of which is nil. attrs are in their normal form.
func (op *Op) sizesOf(inputs map[string]*tensor.Tensor, attrs opspec.Attrs) (*sizes, error) {
	var buf [128]byte
	key, ok := op.appendKey(buf[:0], inputs, attrs)
	if ok {
		op.sizes.mu.RLock()
		s := op.sizes.known[string(key)]
		op.sizes.mu.RUnlock()
		if s != nil {
			return s, nil
		}
	}
	s, err := op.bind(inputs, attrs)
	if err != nil || !ok {
		return s, err
	}
	op.sizes.mu.Lock()
	defer op.sizes.mu.Unlock()
	if op.sizes.known == nil || len(op.sizes.known) == maxSizes {
		op.sizes.known = map[string]*sizes{}
	}
	op.sizes.known[string(key)] = s
	return s, nil
}

func (op *Op) bind(inputs map[string]*tensor.Tensor, attrs opspec.Attrs) (*sizes, error) {
	shapes := make(map[string]tensor.Shape, len(inputs))
	for name, t := range inputs {
		shapes[name] = t.Shape
	}
	program, err := op.Program()
	if err != nil {
		return nil, err
	}
	arranged, err := program.Arrange(op.withMatrix(shapes), attrs)
	if err != nil {
		return nil, err
	}
	op.withVector(arranged, inputs)
	return &sizes{arranged.Dims, arranged}, checkPlaces(op, arranged)
}

// appendKey appends what the sizes follow from; false: there is something that a key cannot say.
func (op *Op) appendKey(b []byte, inputs map[string]*tensor.Tensor, attrs opspec.Attrs) ([]byte, bool) {
	if len(inputs) != len(op.Schema.Inputs) {
		return nil, false
	}
	for i := range op.Schema.Inputs {
		for _, n := range inputs[op.Schema.Inputs[i].Name].Shape {
			b = append(strconv.AppendInt(b, int64(n), 16), ',')
		}
		b = append(b, ';')
	}
	for i := range op.Schema.Attrs {
		switch v := attrs[op.Schema.Attrs[i].Name].(type) {
		case int64:
			b = strconv.AppendInt(b, v, 16)
		case float64:
			b = strconv.AppendUint(b, math.Float64bits(v), 16)
		case bool:
			b = strconv.AppendBool(b, v)
		case string:
			b = strconv.AppendQuote(b, v)
		default:
			return nil, false
		}
		b = append(b, ';')
	}
	return b, true
}
