package oracle_test

import (
	"fmt"
	"math"
	"math/big"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

// vacuityCases returns how many cases an op and dtype get per distribution: a sample, or what GPUEMU_VACUITY says.
func vacuityCases(t *testing.T) int {
	if s := os.Getenv("GPUEMU_VACUITY"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("GPUEMU_VACUITY=%q: want the number of cases per op, dtype and distribution", s)
		}
		return n
	}
	if testing.Short() {
		return 1
	}
	return 4
}

// mixedCases is how many times as many cases the distribution mixed gets, for the share that is asserted of it.
const mixedCases = 10

// vacuityElems is the limit of the elements of a tensor: rows are as long as in campaigns, and there are fewer of them.
// In one case of ten long rows fit, too.
func vacuityElems(i int) int {
	if i%10 == 9 {
		return 1 << 14
	}
	return 1 << 12
}

// vacuousLimit is the largest share of vacuous cases of an op and dtype under mixed values. A sample of n cases may
// have three standard deviations more.
const vacuousLimit = 0.02

// vacuities is what was counted for one op and dtype.
type vacuities struct {
	op, dtype string
	cases     map[string]int // by distribution
	vacuous   map[string]int
	elements  map[string]int // vacuous ones
	total     map[string]int // determined ones
}

// TestGarbageDoesNotPass gives garbage to every op in every dtype under every distribution: none gets a pass, unless it
// equals the wanted values within one step of the dtype. A pass is what a campaign calls so: no element is wrong, and
// the comparison is not vacuous. The garbage is made here, from the values, not by the rule that is tested.
func TestGarbageDoesNotPass(t *testing.T) {
	testkit.ValuesOnly(t)
	n := vacuityCases(t)
	var mu sync.Mutex
	var record []*vacuities
	t.Run("ops", func(t *testing.T) {
		for _, op := range oracle.Ops() {
			for _, d := range op.Schema.AllowedDTypes() {
				t.Run(op.Name+"/"+d.String(), func(t *testing.T) {
					t.Parallel()
					got := garbageOf(t, op, d, n)
					mu.Lock()
					record = append(record, got)
					mu.Unlock()
				})
			}
		}
	})
	if path := os.Getenv("GPUEMU_VACUITY_RECORD"); path != "" {
		if err := os.WriteFile(path, []byte(vacuityTable(record)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func garbageOf(t *testing.T, op *oracle.Op, d dtype.DType, n int) *vacuities {
	v := &vacuities{op: op.Name, dtype: d.String(), cases: map[string]int{}, vacuous: map[string]int{},
		elements: map[string]int{}, total: map[string]int{}}
	for _, dist := range gen.ValueDistributions() {
		ts := newTrials(op, d, dist.Name)
		ts.shapes, ts.limit = []string{"default"}, vacuityElems
		count := n
		if dist.Name == "mixed" {
			count = n * mixedCases
		}
		for i := range count {
			tr, err := ts.next(i)
			if err != nil {
				t.Fatal(err)
			}
			v.cases[dist.Name]++
			if vacuousTrial(t, v, dist.Name, tr) {
				v.vacuous[dist.Name]++
			}
		}
	}
	limit := vacuousLimit
	most := float64(v.cases["mixed"])*limit + 3*math.Sqrt(float64(v.cases["mixed"])*limit)
	if v.cases["mixed"] >= 200 {
		most = float64(v.cases["mixed"]) * limit
	}
	if float64(v.vacuous["mixed"]) > most {
		t.Errorf("%d of %d mixed cases are vacuous, want at most %g %%", v.vacuous["mixed"], v.cases["mixed"], 100*limit)
	}
	return v
}

// vacuousTrial judges garbage for every output of a case, and reports whether the case is vacuous.
func vacuousTrial(t *testing.T, v *vacuities, dist string, tr *trial) bool {
	opt := compare.DefaultOptions()
	opt.Regime, opt.Workers = compare.Bound, 1
	vacuous := false
	for name, w := range tr.want {
		found, err := compare.MeasureVacuity(w, opt)
		if err != nil {
			t.Fatalf("%s: output %q: %v", tr.c, name, err)
		}
		v.elements[dist] += found.Elements
		v.total[dist] += found.Determined
		if found.Vacuous() {
			t.Logf("%s: %s: output %q: %s", dist, tr.c, name, found)
			vacuous = true
			continue
		}
		for kind, garbage := range garbageFor(w) {
			if sameWithinULP(garbage, w) {
				continue
			}
			rep, err := compare.Quick(garbage, w, opt)
			if err != nil {
				t.Fatalf("%s: output %q: %v", tr.c, name, err)
			}
			if rep.Verdict == compare.Pass {
				t.Errorf("%s passes for output %q of %s", kind, name, tr.c)
			}
		}
	}
	return vacuous
}

// garbageFor makes outputs of no worth from what is wanted.
func garbageFor(w *compare.Want) map[string]*tensor.Tensor {
	n := w.Shape.Elems()
	exact, count := new(big.Float).SetPrec(2200), 0
	for i, x := range w.Value {
		if !math.IsNaN(x) && !math.IsInf(x, 0) && (w.Undetermined == nil || !w.Undetermined[i]) {
			exact.Add(exact, big.NewFloat(x))
			count++
		}
	}
	sum, _ := exact.Float64()
	mean := make([]float64, n)
	for i := range mean {
		if mean[i] = sum / float64(max(count, 1)); math.Abs(mean[i]) > w.DType.MaxFinite() {
			mean[i] = math.Copysign(w.DType.MaxFinite(), mean[i])
		}
	}
	row := 1
	if len(w.Shape) > 1 {
		row = max(w.Shape[len(w.Shape)-1], 1)
	}
	swapped, pair := slices.Clone(w.Value), slices.Clone(w.Value)
	for lo := 0; lo+2*row <= n; lo += 2 * row {
		copy(swapped[lo:lo+row], w.Value[lo+row:])
		copy(swapped[lo+row:lo+2*row], w.Value[lo:])
		if lo == 0 {
			copy(pair, swapped[:2*row])
		}
	}
	out := map[string]*tensor.Tensor{}
	for kind, values := range map[string][]float64{"zeros": make([]float64, n), "the mean": mean,
		"a swap of rows": swapped, "a swap of two rows": pair} {
		x := tensor.New(w.DType, w.Shape)
		encode := dtype.Encode
		if w.Saturating {
			encode = dtype.EncodeSaturating
		}
		encode(x.Data, w.DType, values)
		out[kind] = x
	}
	return out
}

// sameWithinULP reports whether garbage is no garbage: it equals what is wanted, or, for indexes, is as good.
func sameWithinULP(got *tensor.Tensor, w *compare.Want) bool {
	size := w.DType.Size()
	near := tensor.New(w.DType, w.Shape)
	if w.Saturating {
		dtype.EncodeSaturating(near.Data, w.DType, w.Value)
	} else {
		dtype.Encode(near.Data, w.DType, w.Value)
	}
	for i := range w.Shape.Elems() {
		if w.Undetermined != nil && w.Undetermined[i] {
			continue
		}
		a, b := w.DType.Load(got.Data[i*size:]), w.DType.Load(near.Data[i*size:])
		x, y := w.DType.Float64(a), w.DType.Float64(b)
		if t := w.Ties; t != nil {
			scores := t.Score[i/t.K*t.N : (i/t.K+1)*t.N]
			if x == y || x >= 0 && x < float64(t.N) && sameScore(scores[int(x)], scores[int(y)]) {
				continue
			}
			return false
		}
		finite := math.Abs(x) <= math.MaxFloat64 && math.Abs(y) <= math.MaxFloat64
		if x == y || x != x && y != y || finite && w.DType.ULPDistance(a, b) <= 1 {
			continue
		}
		return false
	}
	return true
}

func sameScore(x, y float64) bool { return x == y || x != x && y != y }

func vacuityTable(record []*vacuities) string {
	sort.Slice(record, func(i, j int) bool {
		return record[i].op+"/"+record[i].dtype < record[j].op+"/"+record[j].dtype
	})
	var b, rows strings.Builder
	cases, vacuous := 0, 0
	for _, r := range record {
		worst, share := "-", 0.0
		for _, d := range gen.ValueDistributions()[1:] {
			cases += r.cases[d.Name]
			vacuous += r.vacuous[d.Name]
			if s := float64(r.vacuous[d.Name]) / float64(max(r.cases[d.Name], 1)); s > share {
				worst, share = d.Name, s
			}
		}
		cases += r.cases["mixed"]
		vacuous += r.vacuous["mixed"]
		fmt.Fprintf(&rows, "| %s | %s | %d | %s | %s | %s | %s |\n", r.op, r.dtype, r.cases["mixed"],
			percent(r.vacuous["mixed"], r.cases["mixed"]), percent(r.elements["mixed"], r.total["mixed"]), worst,
			percent(r.vacuous[worst], r.cases[worst]))
	}
	fmt.Fprintf(&b, "# Vacuity: what garbage would pass\n\n")
	fmt.Fprintf(&b, "Made by `make evidence-vacuity`: %d ops and dtypes, %d cases, of which %d (%s) are vacuous and "+
		"count as undecided. In the others all-zero, constant and row-swapped outputs fail, unless they equal the wanted "+
		"values within one unit in the last place.\n\n", len(record), cases, vacuous, percent(vacuous, cases))
	fmt.Fprintf(&b, "| op | dtype | mixed cases | vacuous | vacuous elements | worst distribution | vacuous there |\n")
	fmt.Fprintf(&b, "|---|---|---:|---:|---:|---|---:|\n%s", rows.String())
	return b.String()
}
