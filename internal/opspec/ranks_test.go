package opspec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// rankSchema is an operator on x, and w where its dims are given.
func rankSchema(r Ranks, x, w, out []string) *Schema {
	s := &Schema{Name: "ranked", Ranks: r, Inputs: []Input{{Name: "x", Dims: x}},
		Outputs: []Output{{Name: "y", Dims: out}}}
	if w != nil {
		s.Inputs = append(s.Inputs, Input{Name: "w", Dims: w})
	}
	for _, list := range [][]string{x, w, out} {
		for _, d := range list {
			if _, ok := s.Dim(d); !ok {
				s.Dims = append(s.Dims, Dim{Name: d, Candidates: []int{1, 2, 3}, Empty: true})
			}
		}
	}
	return s
}

func TestArrange(t *testing.T) {
	dims := func(names string) []string {
		if names == "" {
			return nil
		}
		return strings.Split(names, "")
	}
	rows := Ranks{Lead: dims("BS"), Axis: "H"}
	whole := Ranks{Lead: dims("BSH"), Broadcast: true}
	spatial := Ranks{Tail: "L", Channels: true}
	images := Ranks{Lead: dims("B"), Channels: true}
	batched := Ranks{Lead: dims("B"), Broadcast: true}
	for _, c := range []struct {
		name             string
		ranks            Ranks
		x, w, y          string
		attrs            Attrs
		xs, ws           []int
		wantDims, wantXY string // dims; inner shape of x, shape of y
	}{
		{"as named", rows, "BSH", "", "BS", nil, []int{2, 3, 4}, nil, "B=2 H=4 S=3", "[2,3,4] [2,3]"},
		{"vector", rows, "BSH", "", "BS", nil, []int{4}, nil, "B=1 H=4 S=1", "[1,1,4] []"},
		{"four axes", rows, "BSH", "", "BS", nil, []int{5, 2, 3, 4}, nil, "B=10 H=4 S=3", "[10,3,4] [5,2,3]"},
		{"five axes, axis 1", rows, "BSH", "", "BS", Attrs{"axis": int64(1)}, []int{2, 7, 3, 4, 5}, nil,
			"B=24 H=7 S=5", "[24,5,7] [2,3,4,5]"},
		{"the axis stays", rows, "BSH", "", "BS", Attrs{"axis": int64(-2), "keepdims": true}, []int{2, 7, 3}, nil,
			"B=2 H=7 S=3", "[2,3,7] [2,1,3]"},
		{"same shape, axis 0", rows, "BSH", "H", "BSH", Attrs{"axis": int64(0)}, []int{7, 2, 3}, []int{7},
			"B=2 H=7 S=3", "[2,3,7] [7,2,3]"},
		{"scalar", whole, "BSH", "", "BSH", nil, []int{}, nil, "B=1 H=1 S=1", "[1,1,1] []"},
		{"broadcast", whole, "BSH", "BSH", "BSH", nil, []int{2, 1, 4}, []int{5, 1, 3, 1}, "B=10 H=4 S=3",
			"[10,3,4] [5,2,3,4]"},
		{"empty", whole, "BSH", "", "BSH", nil, []int{2, 0, 3, 4}, nil, "B=0 H=4 S=3", "[0,3,4] [2,0,3,4]"},
		{"matrices", batched, "BMK", "BKN", "BMN", nil, []int{2, 1, 3, 4}, []int{5, 4, 6}, "B=10 K=4 M=3 N=6",
			"[10,3,4] [2,5,3,6]"},
		{"one matrix", batched, "BMK", "BKN", "BMN", nil, []int{3, 4}, []int{4, 6}, "B=1 K=4 M=3 N=6", "[1,3,4] [3,6]"},
		{"images", spatial, "NCL", "C", "NCL", nil, []int{2, 3, 4, 5}, []int{3}, "C=3 L=20 N=2", "[2,3,20] [2,3,4,5]"},
		{"no image", spatial, "NCL", "C", "NCL", nil, []int{2, 3}, []int{3}, "C=3 L=1 N=2", "[2,3,1] [2,3]"},
		{"channels last", spatial, "NCL", "C", "NCL", Attrs{"channels": "last"}, []int{2, 4, 5, 3}, []int{3},
			"C=3 L=20 N=2", "[2,3,20] [2,4,5,3]"},
		{"image, channels last", images, "BCHW", "", "BCHW", Attrs{"channels": "last"}, []int{4, 5, 3}, nil,
			"B=1 C=3 H=4 W=5", "[1,3,4,5] [4,5,3]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rankSchema(c.ranks, dims(c.x), dims(c.w), dims(c.y))
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			p, err := s.Compile()
			if err != nil {
				t.Fatal(err)
			}
			shapes := map[string]tensor.Shape{"x": c.xs}
			if c.w != "" {
				shapes["w"] = c.ws
			}
			a, err := p.Arrange(shapes, c.attrs)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for name, n := range a.Dims {
				got = append(got, fmt.Sprintf("%s=%d", name, n))
			}
			slices.Sort(got)
			x, y := a.Inputs["x"], a.Outputs["y"]
			if g := strings.Join(got, " "); g != c.wantDims {
				t.Errorf("dims = %s, want %s", g, c.wantDims)
			}
			if g := fmt.Sprint(x.Inner, y.Shape); g != c.wantXY {
				t.Errorf("x is seen as, y has the shape %s, want %s", g, c.wantXY)
			}
			view, err := x.View(tensor.New(dtype.Float32, c.xs))
			if err != nil || !view.Shape.Equal(x.Inner) {
				t.Errorf("the view of x: %v, %v, want shape %s", view, err, x.Inner)
			}
		})
	}
}

// Source must undo what View does.
func TestPlacedSource(t *testing.T) {
	p := Placed{Shape: tensor.Shape{2, 3, 4, 5}, Perm: []int{0, 2, 3, 1}, Inner: tensor.Shape{8, 5, 3}}
	x := make([]float64, 120)
	for i := range x {
		x[i] = float64(i)
	}
	view, err := p.View(tensor.FromFloat64s(dtype.Float64, p.Shape, x))
	if err != nil {
		t.Fatal(err)
	}
	inner := view.Float64s()
	if slices.Equal(inner, x) {
		t.Error("the view has the elements in the order of the caller: nothing was tested")
	}
	for i, from := range p.Source() {
		if inner[from] != x[i] {
			t.Fatalf("element %d comes from %d, which is %v, want %v", i, from, inner[from], x[i])
		}
	}
}

func TestArrangeErrors(t *testing.T) {
	rows := rankSchema(Ranks{Lead: []string{"B", "S"}, Axis: "H"}, []string{"B", "S", "H"}, []string{"H"},
		[]string{"B", "S"})
	both := rankSchema(Ranks{Lead: []string{"B"}}, []string{"B", "C"}, []string{"B"}, []string{"B"})
	wide := rankSchema(Ranks{Lead: []string{"B"}, Broadcast: true}, []string{"B"}, []string{"B"}, []string{"B"})
	for _, c := range []struct {
		s     *Schema
		attrs Attrs
		x, w  []int
		want  string
	}{
		{rows, nil, []int{}, []int{4}, `input "x" has shape [] of rank 0, want rank 1 or more [B,S,H]`},
		{rows, nil, []int{2, 4}, []int{2, 4}, `input "w" has shape [2,4] of rank 2, want rank 1 [H]`},
		{rows, nil, []int{2, 4}, []int{5}, `dim "H" is 4 in input "x" but 5 in input "w"`},
		{rows, Attrs{"axis": int64(2)}, []int{2, 4}, []int{4}, `input "x": axis 2 of a tensor of rank 2`},
		{rows, Attrs{"axis": int64(-3)}, []int{2, 4}, []int{4}, `input "x": axis -3 of a tensor of rank 2`},
		{both, nil, []int{2, 3, 4}, []int{3, 2}, `input "w" has the leading axes [3,2], input "x" has [2,3]`},
		{wide, nil, []int{2, 3}, []int{3, 2}, `leading axes [3,2] of input "w" do not broadcast with [2,3] of input "x"`},
	} {
		p, err := c.s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Arrange(map[string]tensor.Shape{"x": c.x, "w": c.w}, c.attrs)
		if err == nil || diag.CodeOf(err) != BindFailed || !strings.Contains(err.Error(), c.want) {
			t.Errorf("x %v, w %v, %v: %v, want %s", c.x, c.w, c.attrs, err, c.want)
		}
	}
	for _, bad := range []Ranks{
		{Lead: []string{"Q"}}, {Lead: []string{"S"}}, {Lead: []string{"B"}, Tail: "H"}, {Axis: "H"}, {Broadcast: true},
		{Channels: true},
	} {
		s := rankSchema(bad, []string{"B", "S", "H"}, nil, []string{"B"})
		if err := s.Validate(); diag.CodeOf(err) != SchemaInvalid {
			t.Errorf("Validate with %+v: %v, want %s", bad, err, SchemaInvalid)
		}
	}
}
