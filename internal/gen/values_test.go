package gen

import (
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

const (
	testRows = 200
	testCols = 101
)

// draw returns the values of a distribution, row by row, after rounding to the dtype.
func draw(t testing.TB, d dtype.DType, values string) [][]float64 {
	t.Helper()
	return drawSeed(t, d, values, vectorCase(d, values, testRows, testCols).Seed)
}

func drawSeed(t testing.TB, d dtype.DType, values string, seed uint64) [][]float64 {
	t.Helper()
	c := vectorCase(d, values, testRows, testCols)
	c.Seed = seed
	return slices.Collect(slices.Chunk(mustInputs(t, vectorSchema(), c)["x"].Float64s(), testCols))
}

// share returns the share of elements for which f holds.
func share(rows [][]float64, f func(x float64) bool) float64 {
	n, all := 0, 0
	for _, row := range rows {
		for _, x := range row {
			all++
			if f(x) {
				n++
			}
		}
	}
	return float64(n) / float64(all)
}

func within(t *testing.T, what string, got, lo, hi float64) {
	t.Helper()
	if !(got >= lo && got <= hi) {
		t.Errorf("%s = %v, want %v..%v", what, got, lo, hi)
	}
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// numbers are the dtypes that distributions are for.
func numbers() []dtype.DType {
	return slices.DeleteFunc(dtype.All(), func(d dtype.DType) bool { return d == dtype.Bool })
}

// TestDistributions checks for every dtype what each distribution promises.
func TestDistributions(t *testing.T) {
	checks := map[string]func(t *testing.T, d dtype.DType, rows [][]float64){
		"uniform": checkUniform, "normal": checkNormal, "boundary": checkBoundary, "adversarial": checkAdversarial,
		"nan_injected": checkNaNInjected, "masked": checkMasked, "offset": checkOffset, "near_eps": checkNearEps,
		"rising_max": checkRisingMax, "cancelling": checkCancelling,
		"ties": checkTies, "one_hot": checkOneHot, "sparse": checkSparse, "one_sided": checkOneSided,
	}
	for i := range distributions {
		name := distributions[i].Name
		if checks[name] == nil {
			t.Errorf("distribution %s has no check", name)
			continue
		}
		for _, d := range numbers() {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				rows := draw(t, d, name)
				if !distributions[i].nonFinite {
					within(t, "share of finite values", share(rows, isFinite), 1, 1)
				}
				checks[name](t, d, rows)
			})
		}
	}
}

// checkOneSided: one sign, and no value far from the others.
func checkOneSided(t *testing.T, d dtype.DType, rows [][]float64) {
	negative := share(rows, func(x float64) bool { return x < 0 })
	if negative != 0 && negative != 1 {
		t.Errorf("%g of the values are negative, want all or none", negative)
	}
	lo, hi := math.Inf(1), 0.0
	for _, row := range rows {
		for _, x := range row {
			lo, hi = min(lo, math.Abs(x)), max(hi, math.Abs(x))
		}
	}
	if hi/lo > 2 || d.IsSigned() && (lo < 20 || hi > 128) {
		t.Errorf("magnitudes from %g to %g, want values about one of 32, 48, 64 and 96 (unsigned: any)", lo, hi)
	}
}

func checkUniform(t *testing.T, d dtype.DType, rows [][]float64) {
	lo, hi := -10.0, 10.0
	if !d.IsFloat() {
		if lo, hi = -128, min(d.MaxFinite(), 128); !d.IsSigned() {
			lo, hi = 0, 255
		}
	}
	within(t, "share inside", share(rows, func(x float64) bool { return x >= lo && x <= hi }), 1, 1)
	mid := (lo + hi) / 2
	within(t, "share below the middle", share(rows, func(x float64) bool { return x < mid }), 0.45, 0.55)
	if d != dtype.Float8E5M2 { // whose values are 2 apart there
		within(t, "share in the lowest tenth", share(rows, func(x float64) bool { return x < lo+(hi-lo)/10 }), 0.07, 0.13)
	}
	if d.Size() == 1 && !d.IsFloat() {
		for _, end := range []float64{lo, hi} {
			if share(rows, func(x float64) bool { return x == end }) == 0 {
				t.Errorf("%v is never drawn", end)
			}
		}
	}
}

func checkNormal(t *testing.T, d dtype.DType, rows [][]float64) {
	sum, squares, n := 0.0, 0.0, 0.0
	for _, row := range rows {
		for _, x := range row {
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if d.IsFloat() {
		within(t, "mean", mean, -0.05, 0.05)
		within(t, "deviation", deviation, 0.95, 1.05)
	} else {
		within(t, "deviation", deviation, 35, 50)
	}
}

func checkBoundary(t *testing.T, d dtype.DType, _ [][]float64) {
	var rows [][]float64 // of several tensors: some have no extreme values
	for seed := range uint64(12) {
		rows = append(rows, drawSeed(t, d, "boundary", seed)...)
	}
	want := []float64{0, 1, d.MaxFinite(), 2, 4}
	if d.IsFloat() {
		one := d.Bits(1)
		want = append(want, d.SmallestNormal(), d.SmallestSubnormal(), d.Float64(one+1), d.Float64(one-1), 0.5, -1,
			-d.MaxFinite(),
			d.SmallestNormal()-d.SmallestSubnormal(), d.Float64(d.Bits(d.MaxFinite())-1))
		negativeZero := share(rows, func(x float64) bool { return x == 0 && math.Signbit(x) })
		within(t, "share of -0", negativeZero, 0.001, 0.2)
	} else if d.IsSigned() {
		want = append(want, -math.Ldexp(1, 8*d.Size()-1), -1)
	}
	for _, w := range want {
		if share(rows, func(x float64) bool { return x == w }) == 0 {
			t.Errorf("%v is never drawn", w)
		}
	}
	if d.IsFloat() { // operands are not all extreme
		within(t, "share of moderate values", share(rows, func(x float64) bool { return math.Abs(x) <= 32 }), 0.6, 1)
	}
}

// TestBoundarySlices: extreme values are everywhere in one tensor of sixteen, in none of seven, and otherwise in some
// slices of one axis, which leave at least half of the tensor free of them; mostly of the first axis.
func TestBoundarySlices(t *testing.T) {
	s := &opspec.Schema{Name: "cube", Dims: []opspec.Dim{{Name: "A", Candidates: []int{1}}, {Name: "B",
		Candidates: []int{4}}, {Name: "C", Candidates: []int{6}}, {Name: "D", Candidates: []int{100}}},
		Inputs: []opspec.Input{{Name: "x", Dims: []string{"A", "B", "C", "D"}}}}
	c := mustCase(t, mustCases(t, s, Strategy{Values: "boundary", DTypes: []dtype.DType{dtype.Float32}}, 1), 0)
	const n = 800
	count := map[string]int{}
	for seed := range uint64(n) {
		c.Seed = seed
		x := mustInputs(t, s, c)["x"].Float64s()
		var along [3]map[int]bool // indices of extreme values along B, C and D
		for axis := range along {
			along[axis] = map[int]bool{}
		}
		for i, v := range x {
			if math.Abs(v) > 1<<25 {
				along[0][i/600], along[1][i/100%6], along[2][i%100] = true, true, true
			}
		}
		switch b, c, d := len(along[0]), len(along[1]), len(along[2]); {
		case b == 0:
			count["none"]++
		case b <= 2:
			count["B"]++
		case c <= 3:
			count["C"]++
		case d <= 50:
			count["D"]++
		default:
			count["everywhere"]++
		}
	}
	within(t, "tensors without extremes", float64(count["none"])/n, 0.38, 0.5)
	within(t, "tensors with extremes in slices of the first axis", float64(count["B"])/n, 0.35, 0.5)
	within(t, "tensors with extremes in slices of the second axis", float64(count["C"])/n, 0.02, 0.1)
	within(t, "tensors with extremes in slices of the last axis", float64(count["D"])/n, 0.02, 0.1)
	within(t, "tensors with extremes everywhere", float64(count["everywhere"])/n, 0.03, 0.1)
}

func checkAdversarial(t *testing.T, d dtype.DType, rows [][]float64) {
	top := min(1000, d.MaxFinite())
	tenth := d.Float64(d.Bits(d.MaxFinite() / 10))
	if !d.IsFloat() {
		within(t, "share of zeros", share(rows, func(x float64) bool { return x == 0 }), 0.2, 0.6)
		within(t, "share of the largest/10", share(rows, func(x float64) bool { return math.Abs(x) == tenth }), 0.2, 0.5)
		return
	}
	nonFinite := share(rows, func(x float64) bool { return !isFinite(x) })
	within(t, "share of non-finite values", nonFinite, 0.17, 0.23)
	within(t, "share of NaN", share(rows, math.IsNaN), 0.04, 0.23)
	if d != dtype.Float8E4M3FN {
		within(t, "share of +Inf", share(rows, func(x float64) bool { return math.IsInf(x, 1) }), 0.04, 0.1)
		within(t, "share of -Inf", share(rows, func(x float64) bool { return math.IsInf(x, -1) }), 0.04, 0.1)
	}
	tiny := func(x float64) bool {
		return x != 0 && math.Abs(x) <= max(2*d.SmallestNormal(), 8*d.SmallestSubnormal())
	}
	within(t, "share of zeros", share(rows, func(x float64) bool { return x == 0 }), 0.17, 0.25)
	within(t, "share near the smallest normal", share(rows, tiny), 0.15, 0.25)
	within(t, "share of the largest/10", share(rows, func(x float64) bool { return math.Abs(x) == tenth }), 0.17, 0.25)
	within(t, "share within the range of 1000", share(rows, func(x float64) bool {
		return x != 0 && !tiny(x) && math.Abs(x) != tenth && math.Abs(x) <= top
	}), 0.13, 0.23)
	clean := 0
	for _, row := range rows {
		if !slices.ContainsFunc(row, func(x float64) bool { return !isFinite(x) }) {
			clean++
		}
	}
	within(t, "share of finite rows", float64(clean)/float64(len(rows)), 0.35, 0.65)
}

func checkNaNInjected(t *testing.T, d dtype.DType, rows [][]float64) {
	within(t, "share of ordinary values", share(rows, func(x float64) bool { return isFinite(x) && math.Abs(x) <= 255 }),
		0.93, 1)
	if !d.IsFloat() {
		return
	}
	within(t, "share of non-finite values", share(rows, func(x float64) bool { return !isFinite(x) }), 0.025, 0.05)
	within(t, "share of zeros", share(rows, func(x float64) bool { return x == 0 }), 0.005, 0.04)
	within(t, "share of NaN", share(rows, math.IsNaN), 0.005, 0.05)
}

func checkMasked(t *testing.T, d dtype.DType, rows [][]float64) {
	if !d.IsFloat() {
		checkUniform(t, d, rows)
		return
	}
	isMasked := func(x float64) bool { return math.IsInf(x, -1) || math.IsNaN(x) } // NaN where a format has no infinities
	masked := share(rows, isMasked)
	within(t, "share of -Inf", masked, 0.06, 0.2)
	within(t, "share of the rest", share(rows, func(x float64) bool { return math.Abs(x) <= 10 }), 1-masked, 1-masked)
	ends := map[[2]bool]int{}
	for _, row := range rows {
		changes := 0
		for i := range row[1:] {
			if isMasked(row[i]) != isMasked(row[i+1]) {
				changes++
			}
		}
		first, last := isMasked(row[0]), isMasked(row[len(row)-1])
		if changes > 1 || changes == 0 && first {
			t.Fatalf("-Inf in %d runs, want one at an end and finite values beside it: %v", changes, row)
		}
		ends[[2]bool{first, last}]++
	}
	if ends[[2]bool{true, false}] == 0 || ends[[2]bool{false, true}] == 0 || ends[[2]bool{}] == 0 {
		t.Errorf("ends of rows that are masked: %v, want all kinds", ends)
	}
}

func checkOffset(t *testing.T, d dtype.DType, _ [][]float64) {
	signs := map[bool]int{}
	most := 0.0
	shared := 0
	const seeds = 20
	for seed := range uint64(seeds) {
		rows := drawSeed(t, d, "offset", seed)
		lowest, highest := math.Inf(1), math.Inf(-1)
		for _, row := range rows {
			lo, hi := slices.Min(row), slices.Max(row)
			least := min(math.Abs(lo), math.Abs(hi))
			if least < 6 || !smallSpread(d, lo, hi) {
				t.Errorf("row of values %v..%v, want a small spread about a large mean", lo, hi)
			}
			signs[lo > 0]++
			most = max(most, least)
			lowest, highest = min(lowest, least), max(highest, math.Abs(lo), math.Abs(hi))
		}
		if smallSpread(d, lowest, highest-highest/1000) { // rows deviate by 1/2048 to either side
			shared++
		}
	}
	if d.IsSigned() && (signs[true] == 0 || signs[false] == 0) {
		t.Errorf("means have one sign only: %v", signs)
	}
	within(t, "largest mean", most, min(1e6, 0.1/d.UnitRoundoff(), d.MaxFinite()/5), d.MaxFinite())
	within(t, "share of tensors with one mean", float64(shared)/seeds, 0.25, 0.75)
}

// smallSpread reports whether lo..hi is what U[-1,1) about a mean rounds to.
func smallSpread(d dtype.DType, lo, hi float64) bool {
	spacing := 1.0
	if d.IsFloat() {
		spacing = max(spacing, 2*d.HalfULP(max(math.Abs(lo), math.Abs(hi))))
	}
	return hi-lo <= 2+2*spacing
}

func checkNearEps(t *testing.T, d dtype.DType, rows [][]float64) {
	if !d.IsFloat() {
		within(t, "share of small values", share(rows, func(x float64) bool { return math.Abs(x) <= 2 }), 1, 1)
		return
	}
	least, most := math.Inf(1), 0.0
	for i, row := range rows {
		sum := 0.0
		for _, x := range row {
			sum += x * x
		}
		square := sum / float64(len(row))
		if i%2 == 0 { // rows are slices along the first axis here
			within(t, "mean square of an ordinary row", square, 0.5, 1.5)
			continue
		}
		least, most = min(least, square), max(most, square)
	}
	floor := d.SmallestSubnormal() * d.SmallestSubnormal()
	within(t, "least mean square", least, min(0.2e-24, floor), max(3e-24, 4*floor))
	within(t, "greatest mean square", most, 5e-6, max(2e-5, 4*floor))
}

func checkRisingMax(t *testing.T, _ dtype.DType, rows [][]float64) {
	rising := 0
	for _, row := range rows {
		if !slices.IsSorted(row) {
			t.Fatalf("row %v does not rise", row)
		}
		if row[0] < row[len(row)/2] || row[len(row)/2] < row[len(row)-1] {
			rising++
		}
	}
	within(t, "rows that rise", float64(rising), testRows, testRows)
}

func checkCancelling(t *testing.T, d dtype.DType, rows [][]float64) {
	if d.IsInteger() && !d.IsSigned() {
		return // nothing cancels without a sign; values stay in the range, which is checked for all
	}
	for _, row := range rows {
		sum, magnitude := 0.0, 0.0
		for _, x := range row {
			sum += x
			magnitude += math.Abs(x)
		}
		if math.Abs(sum) > 64 || magnitude < 20*math.Abs(sum) || magnitude < 500 {
			t.Errorf("row with sum %v of terms of magnitude %v", sum, magnitude)
		}
	}
}

func checkTies(t *testing.T, _ dtype.DType, rows [][]float64) {
	constant := 0
	for _, row := range rows {
		distinct := map[float64]int{}
		for _, x := range row {
			distinct[x]++
		}
		if len(distinct) > 4 || distinct[slices.Max(row)] < 2 {
			t.Errorf("row with %d different values, the maximum %d times", len(distinct), distinct[slices.Max(row)])
		}
		if len(distinct) == 1 {
			constant++
		}
	}
	within(t, "share of constant rows", float64(constant)/testRows, 0.05, 0.6)
}

func checkOneHot(t *testing.T, d dtype.DType, rows [][]float64) {
	first, last := 0, 0
	for _, row := range rows {
		hot := 0
		for _, x := range row {
			if x != 0 {
				hot++
			}
		}
		if hot > 1 || hot == 0 && d.IsFloat() {
			t.Errorf("row with %d non-zero elements", hot)
		}
		if row[0] != 0 {
			first++
		}
		if row[len(row)-1] != 0 {
			last++
		}
	}
	within(t, "rows with the first element", float64(first), testRows/8, testRows/2)
	within(t, "rows with the last element", float64(last), testRows/8, testRows/2)
}

func checkSparse(t *testing.T, d dtype.DType, rows [][]float64) {
	within(t, "share of non-zero values", share(rows, func(x float64) bool { return x != 0 }), 0.02, 0.08)
	if d.IsFloat() {
		within(t, "share of -0", share(rows, func(x float64) bool { return x == 0 && math.Signbit(x) }), 0.04, 0.08)
	}
}

// TestDomains: whatever the distribution, nothing leaves the domain, and it is not all one value.
func TestDomains(t *testing.T) {
	for _, dom := range []opspec.Domain{
		{Min: 0, Max: math.Inf(1), Finite: true}, {Min: -1, Max: 1}, {Min: 0, Max: 1, NonZero: true}, {NonZero: true},
		{Min: math.Inf(-1), Max: -2}, {Min: 64, Max: 120}, {Min: 0.1, Max: 0.3}, {Finite: true}, {Min: 5, Max: 5},
		{Min: -0.7, Max: 1e30}, {Min: -100, Max: -64},
	} {
		for _, d := range dtype.Floats() {
			for i := range distributions {
				s := vectorSchema()
				s.Inputs[0].Domain = dom
				x := mustInputs(t, s, vectorCase(d, distributions[i].Name, 20, 50))["x"].Float64s()
				bad := slices.IndexFunc(x, func(v float64) bool {
					return dom.Bounded() && !(v >= dom.Min && v <= dom.Max) || (dom.Finite || dom.Bounded()) && !isFinite(v) ||
						dom.NonZero && math.Abs(v) < d.SmallestNormal()
				})
				if bad >= 0 {
					t.Errorf("%s of %s in domain %+v holds %v", distributions[i].Name, d, dom, x[bad])
				}
				if name := distributions[i].Name; name == "uniform" && dom.Min != dom.Max && slices.Min(x) == slices.Max(x) {
					t.Errorf("%s of %s in domain %+v is %v everywhere", name, d, dom, x[0])
				}
			}
		}
	}
	for _, d := range numbers() {
		if d.IsFloat() {
			continue
		}
		for i := range distributions {
			s := vectorSchema()
			s.Inputs[0].Domain = opspec.Domain{Min: 1, Max: 50, NonZero: true}
			for _, v := range mustInputs(t, s, vectorCase(d, distributions[i].Name, 20, 50))["x"].Float64s() {
				if v < 1 || v > 50 {
					t.Fatalf("%s of %s in 1..50 holds %v", distributions[i].Name, d, v)
				}
			}
		}
	}
}

// roleSchema has one input with the given role.
func roleSchema(in opspec.Input) *opspec.Schema {
	in.Name, in.Dims = "x", []string{"B", "N"}
	s := vectorSchema()
	s.Dims = append(s.Dims, opspec.Dim{Name: "V", Candidates: []int{7}})
	s.Inputs[0] = in
	return s
}

func roleInputs(t *testing.T, in opspec.Input, n, v int, check func(x []float64, row int)) {
	t.Helper()
	s := roleSchema(in)
	elem, err := in.ElemType(dtype.Float32, nil)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(40) {
		const rows = 30
		c := vectorCase(dtype.Float32, roleDistribution(&in, elem), rows, n)
		c.Dims = append(c.Dims, opspec.DimValue{Name: "V", Value: v})
		c.Inputs[0].DType, c.Seed = elem, seed
		x := mustInputs(t, s, c)["x"].Float64s()
		check(x, n)
	}
}

func TestIndexRole(t *testing.T) {
	seen := map[float64]int{}
	repeats, constant := 0, 0
	roleInputs(t, opspec.Input{Role: opspec.RoleIndex, DType: "int64", Domain: opspec.Domain{Below: "V"}}, 9, 7,
		func(x []float64, n int) {
			for i, v := range x {
				if v < 0 || v >= 7 || v != math.Trunc(v) {
					t.Fatalf("index %v, want 0..6", v)
				}
				seen[v]++
				if i > 0 && v == x[i-1] {
					repeats++
				}
			}
			if slices.Min(x) == slices.Max(x) {
				constant++
			}
			if slices.Max(x) == 0 {
				t.Error("indices are all 0")
			}
		})
	if len(seen) != 7 || seen[0] < seen[3] || seen[6] < seen[3] || repeats == 0 || constant == 0 {
		t.Errorf("indices %v, %d repeats, %d constant tensors: want all, the ends more often", seen, repeats, constant)
	}
	checkShortIndices(t)
	for _, v := range []int{9, 10, 1000} { // the whole list, nearly, and by rejection
		roleInputs(t, opspec.Input{Role: opspec.RoleIndex, DType: "int32", Domain: opspec.Domain{Below: "V",
			Distinct: true}}, 9, v,
			func(x []float64, n int) {
				for row := range slices.Chunk(x, n) {
					sorted := slices.Sorted(slices.Values(row))
					if len(slices.Compact(sorted)) != n || sorted[0] < 0 || sorted[n-1] >= float64(v) {
						t.Fatalf("row %v, want %d different indices below %d", row, n, v)
					}
				}
			})
	}
}

// checkShortIndices: few indices below a small limit are not all 0 either, unless there is no other.
func checkShortIndices(t *testing.T) {
	s := roleSchema(opspec.Input{Role: opspec.RoleIndex, DType: "int32", Domain: opspec.Domain{Below: "V"}})
	firstZero := 0
	for seed := range uint64(400) {
		for _, v := range []int{1, 2, 6} {
			c := vectorCase(dtype.Float32, indexValues, 1, 2)
			c.Dims = append(c.Dims, opspec.DimValue{Name: "V", Value: v})
			c.Inputs[0].DType, c.Seed = dtype.Int32, seed
			x := mustInputs(t, s, c)["x"].Float64s()
			if slices.Max(x) == 0 != (v == 1) {
				t.Errorf("indices below %d: %v", v, x)
			}
			if v == 6 && x[0] == 0 {
				firstZero++
			}
		}
	}
	within(t, "tensors with a first index of 0", float64(firstZero), 20, 200)
}

func TestMaskRole(t *testing.T) {
	all, none, some := 0, 0, 0
	for _, d := range []string{"bool", ""} {
		roleInputs(t, opspec.Input{Role: opspec.RoleMask, DType: d}, 20, 7, func(x []float64, n int) {
			for row := range slices.Chunk(x, n) {
				sum := 0.0
				for _, v := range row {
					if v != 0 && v != 1 {
						t.Fatalf("mask value %v", v)
					}
					sum += v
				}
				switch sum {
				case 0:
					none++
				case float64(n):
					all++
				default:
					some++
				}
			}
		})
	}
	if all < 100 || none < 50 || some < 1000 {
		t.Errorf("%d full, %d empty, %d mixed rows", all, none, some)
	}
}

func TestProbabilityAndScaleRoles(t *testing.T) {
	ends := map[float64]int{}
	sum, n := 0.0, 0.0
	roleInputs(t, opspec.Input{Role: opspec.RoleProbability}, 50, 7, func(x []float64, _ int) {
		for _, v := range x {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("probability %v", v)
			}
			if v == 0 || v == 1 {
				ends[v]++
			}
			sum, n = sum+v, n+1
		}
	})
	if ends[0] == 0 || ends[1] == 0 {
		t.Errorf("0 and 1 drawn %v times", ends)
	}
	within(t, "mean probability", sum/n, 0.4, 0.55)
	powers, large := 0, 0.0
	n = 0
	roleInputs(t, opspec.Input{Role: opspec.RoleScale}, 50, 7, func(x []float64, _ int) {
		for _, v := range x {
			if !(v > 0 && v <= 0x1p12 && v >= 0x1p-9) {
				t.Fatalf("scale %v", v)
			}
			large = max(large, v)
			if frac, _ := math.Frexp(v); frac == 0.5 {
				powers++
			}
			n++
		}
	})
	within(t, "share of powers of two", float64(powers)/n, 0.4, 0.6)
	within(t, "largest scale", large, 0x1p10, 0x1p12)
}

// TestWeightsAreModerate: whatever is asked for, most weights are normal values.
func TestWeightsAreModerate(t *testing.T) {
	s := attentionLike()
	for _, values := range []string{"mixed", "adversarial"} {
		stream := mustCases(t, s, Strategy{Values: values}, 1)
		count := map[string]int{}
		for i := range 400 {
			in, _ := mustCase(t, stream, i).Input("w")
			count[in.Values]++
		}
		if count["normal"] < 200 || count["normal"] == 400 || values == "adversarial" && len(count) != 2 {
			t.Errorf("%s: weights are drawn as %v", values, count)
		}
	}
}

// TestMixed: each distribution has its share, and tame cases are tame in all inputs.
func TestMixed(t *testing.T) {
	s := vectorSchema()
	for _, name := range []string{"y", "z"} {
		in := s.Inputs[0]
		in.Name = name
		s.Inputs = append(s.Inputs, in)
	}
	stream := mustCases(t, s, Strategy{}, 1)
	const n = 3000
	count := map[string]int{}
	wildCases := 0
	for i := range n {
		wild := false
		for _, in := range mustCase(t, stream, i).Inputs {
			count[in.Values]++
			d, _ := findDistribution(in.Values)
			wild = wild || d.wild
		}
		if wild {
			wildCases++
		}
	}
	for i := range distributions {
		d := &distributions[i]
		want := float64(d.weight) / 100 * n * 3
		within(t, "inputs with "+d.Name, float64(count[d.Name]), want*0.8-10, want*1.2+10)
	}
	within(t, "share of cases with a wild input", float64(wildCases)/n, 0.33, 0.4)
}

// TestNextUp walks through every value of the small formats.
func TestNextUp(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN, dtype.Float8E5M2} {
		n := 0
		for x := -d.MaxFinite(); x < d.MaxFinite(); n++ {
			next := nextUp(d, x)
			if !(next > x) {
				t.Fatalf("%s: nextUp(%v) = %v", d, x, next)
			}
			between := x/2 + next/2
			if atLeast(d, between) != next || atMost(d, between) != x || atLeast(d, x) != x || atMost(d, x) != x {
				t.Fatalf("%s: atLeast(%v) = %v, atMost = %v", d, between, atLeast(d, between), atMost(d, between))
			}
			x = next
		}
		finite := 0
		for b := range uint64(1) << (8 * d.Size()) {
			if isFinite(d.Float64(b)) {
				finite++
			}
		}
		if n != finite-2 { // both zeros are one value, and there is one step less than values
			t.Errorf("%s: %d steps for %d finite codes", d, n, finite)
		}
	}
}

// TestRankZeroAndEmpty: scalars and empty tensors are inputs, too.
func TestRankZeroAndEmpty(t *testing.T) {
	s := vectorSchema()
	s.Inputs = append(s.Inputs, opspec.Input{Name: "scalar", Dims: []string{}})
	for i := range distributions {
		c := vectorCase(dtype.Float32, distributions[i].Name, 0, 5)
		c.Inputs = append(c.Inputs, opspec.CaseInput{Name: "scalar", DType: dtype.Float32, Shape: tensor.Shape{},
			Layout: tensor.Contiguous, Values: distributions[i].Name})
		in := mustInputs(t, s, c)
		if x := in["x"]; x.Elems() != 0 || len(x.Data) != 0 {
			t.Errorf("%s: empty input has %d bytes", distributions[i].Name, len(x.Data))
		}
		if x := in["scalar"]; len(x.Data) != 4 {
			t.Errorf("%s: scalar has %d bytes", distributions[i].Name, len(x.Data))
		}
	}
}
