package gen

import (
	"slices"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
)

func reducedSchema() *opspec.Schema {
	return &opspec.Schema{Name: "rows", Dims: []opspec.Dim{
		{Name: "B", Candidates: []int{1, 2, 4, 8}},
		{Name: "S", Candidates: []int{1, 7, 16, 64, 128}},
		{Name: "H", Candidates: []int{64, 257, 1025}, Min: 1, Reduced: true},
	}, Inputs: []opspec.Input{{Name: "x", Dims: []string{"B", "S", "H"}}},
		Outputs: []opspec.Output{{Name: "y", Dims: []string{"B", "S"}}}}
}

// TestLongAxes: one default case in 20 has a long reduced axis, of varied length, and costs no more than others. Other
// cases are what they are without the mark.
func TestLongAxes(t *testing.T) {
	marked, plain := reducedSchema(), reducedSchema()
	plain.Dims[2].Reduced = false
	const cases = 2000
	with, without := mustCases(t, marked, Strategy{}, 3), mustCases(t, plain, Strategy{}, 3)
	lengths, long := map[int]bool{}, 0
	for i := range cases {
		c := mustCase(t, with, i)
		dims := c.DimMap()
		h := dims["H"]
		if h < longLeast {
			if want := mustCase(t, without, i); c.String() != want.String() {
				t.Fatalf("case %d = %s, want %s", i, c, want)
			}
			continue
		}
		long++
		lengths[h] = true
		if h > longMost || dims["B"]*dims["S"]*h > longWork {
			t.Errorf("case %d is too large: %s", i, c)
		}
	}
	if long < cases/40 || long > cases/15 {
		t.Errorf("%d of %d cases are long, want about one in %d", long, cases, longCases)
	}
	if len(lengths) < long/3 {
		t.Errorf("%d lengths in %d long cases", len(lengths), long)
	}
	for _, want := range [][2]int{{longLeast, 8191}, {8192, 16383}, {16384, 32767}, {32768, 65535}, {65536, longMost}} {
		found := false
		for h := range lengths {
			found = found || h >= want[0] && h <= want[1]
		}
		if !found {
			t.Errorf("no length in %v", want)
		}
	}
}

// TestLongAxesStayWithinLimits: neither a small limit of elements nor a relation, a greatest size or a list of sizes is
// broken for a long axis, and other strategies have none.
func TestLongAxesStayWithinLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*opspec.Schema, *Strategy)
		long   bool
	}{
		{"small tensors", func(_ *opspec.Schema, st *Strategy) { st.MaxElems = 8193 }, false},
		{"two rows", func(_ *opspec.Schema, st *Strategy) { st.MaxElems = 2 * longLeast }, true},
		{"listed", func(_ *opspec.Schema, st *Strategy) { st.Dims = map[string][]int{"H": {64}} }, false},
		{"listed beside", func(_ *opspec.Schema, st *Strategy) { st.Dims = map[string][]int{"S": {128}} }, false},
		{"most", func(_ *opspec.Schema, st *Strategy) { st.Most = map[string]int{"H": 300} }, false},
		{"most of a long one", func(_ *opspec.Schema, st *Strategy) { st.Most = map[string]int{"H": 5000} }, true},
		{"greatest size", func(s *opspec.Schema, _ *Strategy) { s.Dims[2].Max = 4000 }, false},
		{"multiple", func(s *opspec.Schema, _ *Strategy) {
			s.Dims[2].Candidates, s.Relations = []int{64, 128}, []string{"H % 64 == 0"}
		}, true},
		{"boundary", func(_ *opspec.Schema, st *Strategy) { st.Shapes = "boundary" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, st := reducedSchema(), Strategy{}
			c.change(s, &st)
			stream := mustCases(t, s, st, 5)
			long := 0
			for i := range 600 {
				k := mustCase(t, stream, i)
				if k.DimMap()["H"] >= longLeast {
					long++
				}
				if most := st.Most["H"]; most > 0 && k.DimMap()["H"] > most {
					t.Fatalf("%s: H is larger than %d", k, most)
				}
				if st.MaxElems > 0 && k.Inputs[0].Shape.Elems() > st.MaxElems {
					t.Fatalf("%s has more than %d elements", k, st.MaxElems)
				}
				if c.name == "listed beside" && k.DimMap()["S"] != 128 {
					t.Fatalf("%s: S is not the listed size", k)
				}
			}
			if c.name != "listed beside" && (long > 0) != c.long {
				t.Errorf("%d of 600 cases are long, want some: %v", long, c.long)
			}
		})
	}
}

func TestMostIsChecked(t *testing.T) {
	for _, most := range []map[string]int{{"X": 4}, {"H": 0}} {
		if _, err := Cases(reducedSchema(), Strategy{Most: most}, 1); diag.CodeOf(err) != BadStrategy {
			t.Errorf("most %v: %v, want %s", most, err, BadStrategy)
		}
	}
}

// TestUsualShapes: relations that are usual hold but in a few cases; where they cannot hold, there are cases all the
// same.
func TestUsualShapes(t *testing.T) {
	s := &opspec.Schema{Name: "pair", Usual: []string{"N >= M"}, Dims: []opspec.Dim{
		{Name: "M", Candidates: []int{1, 16, 64, 100}}, {Name: "N", Candidates: []int{1, 8, 32, 90}},
	}, Inputs: []opspec.Input{{Name: "x", Dims: []string{"M", "N"}}}}
	const cases = 1000
	count := func(st Strategy) (unusual int) {
		stream := mustCases(t, s, st, 9)
		for i := range cases {
			if d := mustCase(t, stream, i).DimMap(); d["N"] < d["M"] {
				unusual++
			}
		}
		return unusual
	}
	if n := count(Strategy{}); n == 0 || n > cases/25 {
		t.Errorf("%d of %d cases are unusual, want a few", n, cases)
	}
	if n := count(Strategy{Dims: map[string][]int{"M": {100}, "N": {8}}}); n != cases {
		t.Errorf("%d of %d cases are unusual where nothing else is possible", n, cases)
	}
}

// TestRareDistributions: what is rare for an input is drawn for it, but seldom, and normal values take its place where
// it is asked for.
func TestRareDistributions(t *testing.T) {
	s := &opspec.Schema{Name: "rare", Dims: []opspec.Dim{{Name: "N", Candidates: []int{4}}}, Inputs: []opspec.Input{
		{Name: "x", Dims: []string{"N"}, Rare: []string{"offset", "boundary"}}, {Name: "y", Dims: []string{"N"}}}}
	const cases = 2000
	count := func(values string) (drawn [2]int) {
		stream := mustCases(t, s, Strategy{Values: values}, 9)
		for i := range cases {
			for k, in := range mustCase(t, stream, i).Inputs {
				if in.Values == "offset" || in.Values == "boundary" {
					drawn[k]++
				}
			}
		}
		return drawn
	}
	if got := count("mixed"); got[0] == 0 || got[0] > cases/20 || got[1] < cases/10 {
		t.Errorf("of %d mixed cases %v have the values that are rare for the first", cases, got)
	}
	if got := count("offset"); got[0] < cases/5 || got[0] > cases/3 || got[1] != cases {
		t.Errorf("of %d cases with offset asked for %v have it, want a quarter and all", cases, got)
	}
	s.Inputs[0].Rare = []string{"ofset"}
	if _, err := Cases(s, Strategy{}, 1); diag.CodeOf(err) != UnknownDistribution {
		t.Errorf("an unknown name: %v, want %s", err, UnknownDistribution)
	}
}

// TestOftenDistributions: an input gets its frequent values several times as often as others do, and wild ones as
// often.
func TestOftenDistributions(t *testing.T) {
	s := &opspec.Schema{Name: "often", Dims: []opspec.Dim{{Name: "N", Candidates: []int{4}}}, Inputs: []opspec.Input{
		{Name: "x", Dims: []string{"N"}, Often: []string{"offset"}}, {Name: "y", Dims: []string{"N"}}}}
	const cases = 2000
	var offset, wild [2]int
	stream := mustCases(t, s, Strategy{}, 9)
	for i := range cases {
		for k, in := range mustCase(t, stream, i).Inputs {
			d, _ := findDistribution(in.Values)
			if d.Name == "offset" {
				offset[k]++
			}
			if d.wild {
				wild[k]++
			}
		}
	}
	if offset[0] < 2*offset[1] || offset[1] == 0 {
		t.Errorf("of %d cases %v have offset values, want more than twice as many for the first input", cases, offset)
	}
	if wild[0] < wild[1]/2 || wild[0] > 2*wild[1] {
		t.Errorf("of %d cases %v have wild values, want about as many for both inputs", cases, wild)
	}
	s.Inputs[0].Often = []string{"ofset"}
	if _, err := Cases(s, Strategy{}, 1); diag.CodeOf(err) != UnknownDistribution {
		t.Errorf("an unknown name: %v, want %s", err, UnknownDistribution)
	}
}

// TestCounts: lengths are 0 in few tensors.
func TestCounts(t *testing.T) {
	dims := []opspec.Dim{{Name: "B", Candidates: []int{5}}, {Name: "N", Candidates: []int{7}}}
	s := &opspec.Schema{Name: "lens", Dims: dims,
		Inputs: []opspec.Input{{Name: "n", Dims: []string{"B"}, DType: "int32", Role: opspec.RoleIndex,
			Domain: opspec.Domain{Below: "N+1", Counts: true}}}}
	stream := mustCases(t, s, Strategy{DTypes: []dtype.DType{dtype.Float32}}, 4)
	zeros, full := 0, 0
	for i := range 800 {
		x := mustInputs(t, s, mustCase(t, stream, i))["n"].Float64s()
		if slices.Contains(x, 0) {
			zeros++
		}
		if slices.Contains(x, 7) {
			full++
		}
	}
	if zeros < 20 || zeros > 120 || full < 200 {
		t.Errorf("of 800 tensors %d hold a 0, %d the greatest length", zeros, full)
	}
}
