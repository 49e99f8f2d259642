// This file implements coverage: which of the configured ops, dtypes, layouts, value distributions and kinds of shapes
// were exercised.

package report

import (
	"slices"
	"strings"

	"gpuemu/internal/verdict"
)

// CoverageOp is an op or kernel as configured: what could be exercised. Empty lists ask for nothing.
type CoverageOp struct {
	Name      string
	Candidate string // as configured: file.py:function, a path, worker:COMMAND, builtin:NAME
	Reference string
	DTypes    []string
	Layouts   []string
	Values    []string       // value distributions
	Tiles     map[string]int // usual block size by dimension, from the schema; nil: unknown
}

// Coverage is what a set of results exercised.
type Coverage struct {
	Ops []OpCoverage `json:"ops"` // in the order of the configuration, then others by name
	// Unconfigured are ops with results that the configuration does not have (any more).
	Unconfigured []string `json:"unconfigured,omitempty"`
}

// OpCoverage is what was exercised of one op. A case counts if the candidate was executed: not_run counts nowhere.
type OpCoverage struct {
	Op        string `json:"op"`
	Candidate string `json:"candidate,omitempty"`
	Reference string `json:"reference,omitempty"`
	Cases     int    `json:"cases"`
	NotRun    int    `json:"not_run"`
	DTypes    Facet  `json:"dtypes"`
	Layouts   Facet  `json:"layouts"`
	Values    Facet  `json:"values"`
	Shapes    Facet  `json:"shapes"`
}

// Facet is one kind of choice: how often each value was exercised, and which configured ones never were.
type Facet struct {
	Seen   []Count  `json:"seen"`
	Unseen []string `json:"unseen,omitempty"`
}

// Count is a name and how many cases had it.
type Count struct {
	Name  string `json:"name"`
	Cases int    `json:"cases"`
}

// Hit returns how many of the wanted values were exercised, and how many there are.
func (f *Facet) Hit() (seen, all int) { return len(f.Seen), len(f.Seen) + len(f.Unseen) }

// Classes of shapes. A case has a class if one of its dimensions has it; the tile classes need a schema.
const (
	ShapeEmpty      = "empty"            // a dimension of size 0
	ShapeOne        = "one"              // of size 1
	ShapePowerOfTwo = "power_of_two"     // of size 2, 4, 8, …
	ShapeOther      = "other"            // of any other size
	ShapeTile       = "tile_multiple"    // a multiple of the dimension's tile
	ShapeTileMinus  = "tile_minus_one"   // one below a multiple
	ShapeTilePlus   = "tile_plus_one"    // one above a multiple
	ShapePartial    = "tile_partial"     // another size with a partial tile
	shapeUnknown    = "unreadable_cases" // cases whose text says nothing of shapes: kernels
)

// wantedShapes are the classes that every op should see. Size 0 is not among them: many operators do not allow it.
var (
	wantedShapes = []string{ShapeOne, ShapePowerOfTwo, ShapeOther}
	wantedTiles  = []string{ShapeTileMinus, ShapeTile, ShapeTilePlus}
)

// opCover counts for one op.
type opCover struct {
	op                              CoverageOp
	configured                      bool
	cases, notRun                   int
	dtypes, layouts, values, shapes map[string]int
}

// Cover goes through the profiles of results once and says what they exercised of the configured ops. Memory does not
// grow with their number.
func Cover(each func(yield func(*verdict.Profile) error) error, configured []CoverageOp) (*Coverage, error) {
	var order []*opCover
	byName := map[string]*opCover{}
	find := func(op CoverageOp, configured bool) *opCover {
		c := byName[op.Name]
		if c == nil {
			c = &opCover{op: op, configured: configured, dtypes: map[string]int{}, layouts: map[string]int{},
				values: map[string]int{}, shapes: map[string]int{}}
			byName[op.Name] = c
			order = append(order, c)
		}
		return c
	}
	for _, op := range configured {
		find(op, true)
	}
	known := len(order)
	err := each(func(r *verdict.Profile) error {
		find(CoverageOp{Name: r.Op, Candidate: r.Candidate, Reference: r.Reference}, false).add(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(order[known:], func(x, y *opCover) int { return strings.Compare(x.op.Name, y.op.Name) })
	out := &Coverage{Ops: []OpCoverage{}}
	for _, c := range order {
		out.Ops = append(out.Ops, c.result())
		if !c.configured {
			out.Unconfigured = append(out.Unconfigured, c.op.Name)
		}
	}
	return out, nil
}

func (c *opCover) add(r *verdict.Profile) {
	if r.Verdict == verdict.NotRun {
		c.notRun++
		return
	}
	c.cases++
	if r.DType != "" {
		c.dtypes[r.DType]++
	}
	if !r.Readable {
		c.shapes[shapeUnknown]++
		return
	}
	for _, name := range r.Layouts {
		c.layouts[name]++
	}
	for _, name := range r.Values {
		c.values[name]++
	}
	seen := make([]string, 0, 8) // there are no more classes
	class := func(name string) {
		if !slices.Contains(seen, name) {
			seen = append(seen, name)
			c.shapes[name]++
		}
	}
	for _, n := range r.Sizes {
		class(sizeClass(n))
	}
	for _, d := range r.Dims {
		if tile := c.op.Tiles[d.Name]; tile > 1 && d.Value > 1 {
			class(tileClass(d.Value, tile))
		}
	}
}

func sizeClass(n int) string {
	switch {
	case n == 0:
		return ShapeEmpty
	case n == 1:
		return ShapeOne
	case n&(n-1) == 0:
		return ShapePowerOfTwo
	}
	return ShapeOther
}

func tileClass(n, tile int) string {
	switch n % tile {
	case 0:
		return ShapeTile
	case tile - 1: // before 1: with tiles of 2 they are the same
		return ShapeTileMinus
	case 1:
		return ShapeTilePlus
	}
	return ShapePartial
}

func (c *opCover) result() OpCoverage {
	shapes := wantedShapes
	for _, tile := range c.op.Tiles {
		if tile > 2 {
			shapes = append(slices.Clone(wantedShapes), wantedTiles...)
		}
	}
	if !c.configured {
		shapes = nil
	}
	return OpCoverage{Op: c.op.Name, Candidate: c.op.Candidate, Reference: c.op.Reference,
		Cases: c.cases, NotRun: c.notRun, DTypes: facet(c.dtypes, c.op.DTypes),
		Layouts: facet(c.layouts, c.op.Layouts), Values: facet(c.values, c.op.Values),
		Shapes: facet(c.shapes, shapes)}
}

// facet sorts what was seen by name, and lists what was wanted and not seen in the order of the configuration.
func facet(seen map[string]int, wanted []string) Facet {
	f := Facet{Seen: []Count{}}
	for name, n := range seen {
		f.Seen = append(f.Seen, Count{name, n})
	}
	slices.SortFunc(f.Seen, func(x, y Count) int { return strings.Compare(x.Name, y.Name) })
	for _, name := range wanted {
		if seen[name] == 0 && !slices.Contains(f.Unseen, name) {
			f.Unseen = append(f.Unseen, name)
		}
	}
	return f
}
