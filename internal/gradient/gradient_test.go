package gradient

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// sizes are small enough for central differences and different from each other where a mix-up would hide.
var sizes = map[string]int{
	"B": 2, "S": 3, "H": 5, "M": 3, "N": 8, "K": 4, "HQ": 2, "HKV": 1, "D": 4, "R": 3, "C": 4, "V": 6, "L": 7, "E": 8,
	"CI": 2, "CO": 3, "W": 6, "KH": 3, "KW": 2,
}

// problem draws inputs and gradients of outputs for an op. offset shifts the data.
func problem(t *testing.T, op *oracle.Op, attrs opspec.Attrs, d dtype.DType, seed uint64, offset float64) Problem {
	t.Helper()
	dims := map[string]int{}
	for i := range op.Schema.Dims {
		if dim := &op.Schema.Dims[i]; !dim.Derived() {
			dims[dim.Name] = sizes[dim.Name]
		}
	}
	inputs, outputs, err := op.Schema.Resolve(dims, attrs)
	if err != nil {
		t.Fatal(err)
	}
	p := Problem{Op: op, Attrs: attrs, DType: d, Inputs: map[string]*tensor.Tensor{}, Outputs: map[string]*tensor.Tensor{}}
	root := rng.New(seed)
	for i := range op.Schema.Inputs {
		in := &op.Schema.Inputs[i]
		p.Inputs[in.Name] = drawn(t, root.Derive(in.Name), op, in, d, inputs[in.Name], offset)
	}
	for i := range op.Schema.Outputs {
		o := &op.Schema.Outputs[i]
		if od, err := o.ElemType(d, attrs); err != nil || !od.IsFloat() {
			continue
		}
		s := root.Derive("grad/" + o.Name)
		g := make([]float64, outputs[o.Name].Elems())
		for i := range g {
			g[i] = s.Normal()
		}
		p.Outputs[o.Name] = tensor.FromFloat64s(d, outputs[o.Name], g)
	}
	return p
}

func drawn(
	t *testing.T, s *rng.RNG, op *oracle.Op, in *opspec.Input, d dtype.DType, shape tensor.Shape, offset float64,
) *tensor.Tensor {
	t.Helper()
	et, err := in.ElemType(d, op.Schema.DefaultAttrs())
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, shape.Elems())
	for i := range x {
		x[i] = s.Normal()
		switch {
		case in.Role == opspec.RoleIndex:
			x[i] = float64(1 + s.Intn(3)) // below every limit of the sizes above, and no sequence is empty
		case op.Name == "log" || op.Name == "rsqrt" || in.Name == "var" || in.Role == opspec.RoleScale:
			x[i] = 0.1 + math.Abs(x[i])
		case in.Domain.Bounded():
			x[i] = math.Max(-1, math.Min(1, x[i]/3))
		case et == dtype.Int8:
			x[i] = math.Round(20 * x[i])
		case in.Role == opspec.RoleData && (in.Name == "input" || in.Name == "logits"):
			x[i] += offset
		}
	}
	return tensor.FromFloat64s(et, shape, x)
}

// variants returns the attributes to try: defaults, and each value of each attribute in turn.
func variants(op *oracle.Op) []opspec.Attrs {
	out := []opspec.Attrs{op.Schema.DefaultAttrs()}
	for i := range op.Schema.Attrs {
		a := &op.Schema.Attrs[i]
		if a.Name == "math" || opspec.PlacesAxes(a.Name) { // see TestRanks for the places of axes
			continue
		}
		for _, v := range a.Values {
			n, err := a.Normal(v)
			if err != nil || n == a.DefaultValue() {
				continue
			}
			attrs := op.Schema.DefaultAttrs()
			attrs[a.Name] = n
			out = append(out, attrs)
		}
	}
	return out
}

// ops returns the catalogue's operators that have a gradient.
func ops() []*oracle.Op {
	var out []*oracle.Op
	for _, op := range oracle.Ops() {
		if len(Differentiable(op)) > 0 {
			out = append(out, op)
		}
	}
	return out
}

// TestAnalyticAgainstNumeric: the formula and the differences of the forward reference are two ways to one number.
func TestAnalyticAgainstNumeric(t *testing.T) {
	tested := 0
	for _, op := range ops() {
		if formulas[op.Name] == nil {
			continue
		}
		tested++
		for v, attrs := range variants(op) {
			for seed, offset := range []float64{0, 0, 3} {
				t.Run(fmt.Sprintf("%s/%d/%d", op.Name, v, seed), func(t *testing.T) {
					p := problem(t, op, attrs, dtype.Float64, uint64(seed+1), offset)
					agree(t, p)
				})
			}
		}
	}
	if tested != len(formulas) {
		t.Errorf("%d ops tested, %d formulas", tested, len(formulas))
	}
}

// TestReducedLoss: rows that are ignored have no gradient and do not count in the mean.
func TestReducedLoss(t *testing.T) {
	op, ok := oracle.Lookup("cross_entropy")
	if !ok {
		t.Fatal("no cross_entropy")
	}
	ignored := 0
	for _, reduction := range []string{"mean", "sum"} {
		for seed := range uint64(6) {
			attrs := op.Schema.DefaultAttrs()
			attrs["reduction"], attrs["ignore_index"] = reduction, int64(1+seed%3) // targets are 1 to 3
			p := problem(t, op, attrs, dtype.Float64, seed, 0)
			for _, target := range p.Inputs["target"].Float64s() {
				if int64(target) == attrs["ignore_index"] {
					ignored++
				}
			}
			agree(t, p)
		}
	}
	if ignored == 0 {
		t.Error("no row is ignored")
	}
}

func agree(t *testing.T, p Problem) {
	t.Helper()
	formula, err := Analytic(p)
	if err != nil {
		t.Fatal(err)
	}
	differences, err := Numeric(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	u := dtype.Float64.UnitRoundoff()
	for _, name := range Differentiable(p.Op) {
		f, n := formula[name], differences[name]
		known := 0
		for i := range f.Value {
			if !finite(f.Scale[i]) || !finite(n.Scale[i]) {
				continue
			}
			known++
			bound := n.Estimate[i] + float64(safety*u*f.Scale[i])
			if !(math.Abs(f.Value[i]-n.Value[i]) <= bound) || bound > 1e-4 {
				t.Errorf("%s grad/%s[%d]: formula %v, differences %v, within %v", p.Op.Name, name, i, f.Value[i], n.Value[i],
					bound)
			}
		}
		if known < len(f.Value)*3/4 {
			t.Errorf("%s grad/%s: only %d of %d elements are known", p.Op.Name, name, known, len(f.Value))
		}
	}
}

// TestEveryOpHasAGradient: of every differentiable operator of the catalogue, by formula or by differences.
func TestEveryOpHasAGradient(t *testing.T) {
	for _, op := range ops() {
		d := dtype.Float64
		if !slices.Contains(op.Schema.AllowedDTypes(), d) {
			d = op.Schema.AllowedDTypes()[0]
		}
		p := problem(t, op, op.Schema.DefaultAttrs(), d, 1, 0)
		got, how, err := Of(context.Background(), p)
		if err != nil {
			t.Errorf("%s: %v", op.Name, err)
			continue
		}
		if (how == "") != (formulas[op.Name] != nil) {
			t.Errorf("%s: made %q", op.Name, how)
		}
		for _, name := range Differentiable(op) {
			g := got[name]
			known, nonzero := 0, 0
			for i := range g.Value {
				if finite(g.Scale[i]) {
					known++
				}
				if g.Value[i] != 0 {
					nonzero++
				}
			}
			if known == 0 || nonzero == 0 {
				t.Errorf("%s grad/%s: %d of %d elements known, %d not zero", op.Name, name, known, len(g.Value), nonzero)
			}
		}
	}
}

// TestBoundsTellFaultsApart: in float32, and in float16 for most elements, a gradient of the wrong sign or twice as
// large is outside the bound, and the rounded gradient itself is inside.
func TestBoundsTellFaultsApart(t *testing.T) {
	for _, op := range ops() {
		if formulas[op.Name] == nil {
			continue
		}
		for d, share := range map[dtype.DType]float64{dtype.Float32: 0.95, dtype.Float16: 0.5} {
			p := problem(t, op, op.Schema.DefaultAttrs(), d, 7, 0)
			got, err := Analytic(p)
			if err != nil {
				t.Fatal(err)
			}
			for name, g := range got {
				w := g.Want(d)
				caught, nonzero := 0, 0
				for i, v := range w.Value {
					if v == 0 || w.Undetermined != nil && w.Undetermined[i] {
						continue
					}
					nonzero++
					if math.Abs(v) > w.Bound[i] { // twice as large is off by |v|, the wrong sign by 2|v|
						caught++
					}
					if rounded := d.Float64(d.Bits(v)); math.Abs(rounded-v) > w.Bound[i] {
						t.Errorf("%s %s grad/%s[%d]: %v rounded is outside of %v", op.Name, d, name, i, v, w.Bound[i])
					}
				}
				if nonzero == 0 || float64(caught) < share*float64(nonzero) {
					t.Errorf("%s %s grad/%s: a factor of two is seen in %d of %d elements", op.Name, d, name, caught, nonzero)
				}
			}
		}
	}
}

// TestOpen: what is left open, and what is not, at the ends of the range and at kinks.
func TestOpen(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		op   string
		x    float64
		want float64
		open bool
	}{
		{"relu", 0, 0, true}, {"relu", -1, 0, false}, {"relu", 0x1p-149, 1, true}, {"relu", 0x1p-126, 1, false},
		{"relu", math.NaN(), 0, true},
		{"elu", 0, 1, false}, {"silu", -200, 0, false}, {"silu", 200, 1, false}, {"sigmoid", -1000, 0, false},
		{"gelu", -50, 0, false}, {"gelu_tanh", 100, 1, false}, {"softplus", 500, 1, false}, {"log", 0, inf, true},
		{"log", -1, -1, true}, {"rsqrt", 0, 0, true}, {"exp", 100, inf, true}, {"tanh", inf, 0, true},
	} {
		op, _ := oracle.Lookup(tt.op)
		shape := tensor.Shape{1, 1, 1}
		one := func(x float64) *tensor.Tensor { return tensor.FromFloat64s(dtype.Float32, shape, []float64{x}) }
		got, err := Analytic(Problem{Op: op, Attrs: op.Schema.DefaultAttrs(), DType: dtype.Float32,
			Inputs: map[string]*tensor.Tensor{"input": one(tt.x)}, Outputs: map[string]*tensor.Tensor{"output": one(1)}})
		if err != nil {
			t.Fatal(err)
		}
		w := got["input"].Want(dtype.Float32)
		switch isOpen := w.Undetermined != nil; {
		case isOpen != tt.open:
			t.Errorf("%s at %v: open %v, want %v", tt.op, tt.x, isOpen, tt.open)
		case !isOpen && (math.Abs(w.Value[0]-tt.want) > 1e-6 || w.Bound[0] > 0.1):
			t.Errorf("%s at %v: %v within %v, want %v", tt.op, tt.x, w.Value[0], w.Bound[0], tt.want)
		}
	}
}

// TestNumericKinks: a tie of the maximum is left open, the other elements are not.
func TestNumericKinks(t *testing.T) {
	op, _ := oracle.Lookup("max")
	p := Problem{Op: op, Attrs: op.Schema.DefaultAttrs(), DType: dtype.Float32,
		Inputs: map[string]*tensor.Tensor{
			"input": tensor.FromFloat64s(dtype.Float32, tensor.Shape{1, 2, 3}, []float64{5, 5, 1, 2, 3, 4})},
		Outputs: map[string]*tensor.Tensor{"output": tensor.FromFloat64s(dtype.Float32, tensor.Shape{1, 2}, []float64{1, 2})}}
	got, err := Numeric(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	g := got["input"]
	for i, want := range []float64{inf(), inf(), 0, 0, 0, 2} {
		if finite(g.Scale[i]) != finite(want) || finite(want) && math.Abs(g.Value[i]-want) > 1e-9 {
			t.Errorf("element %d: %v with scale %v, want %v", i, g.Value[i], g.Scale[i], want)
		}
	}
}

// inf stands for an element that is left open.
func inf() float64 { return math.Inf(1) }
