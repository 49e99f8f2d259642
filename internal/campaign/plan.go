package campaign

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the plan of a campaign: which case stands at which index.

// Kinds of campaigns.
const (
	KindTest = "test"
	KindFuzz = "fuzz"
	KindCI   = "ci"
)

// MaxCases is the most cases one campaign may have: results are rows of a store, and ten million of them are
// gigabytes.
const MaxCases = 10_000_000

// DefaultIterations is the documented number of iterations of fuzz.
const DefaultIterations = 100

// Options say which cases a campaign runs and how. The zero value is the documented default.
type Options struct {
	Ops        []string // nil: all of the configuration
	Quick      bool     // test, ci: the quick cases only
	Seed       *uint64  // nil: [validation] seed, else 1; fuzz: required
	Iterations int      // fuzz: cases per op; 0: DefaultIterations
	FailFast   bool
	TimeLimit  time.Duration // 0: none
	Parallel   int           // 0: one per CPU
	Shard      Shard
	Values     string
	Shapes     string
	DTypes     []dtype.DType
	Layouts    []tensor.Layout
	Dims       map[string][]int // the only sizes of these dimensions
	Ranks      []int            // drawn for tensors that may have any; nil: those of [validation], else of their dims
}

// Shard is part I of N of a campaign, counted from 1. The zero value is the whole.
type Shard struct{ I, N int }

// ParseShard reads "2/4".
func ParseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	i, n, ok := strings.Cut(text, "/")
	s := Shard{}
	var errI, errN error
	s.I, errI = strconv.Atoi(i)
	s.N, errN = strconv.Atoi(n)
	if !ok || errI != nil || errN != nil || s.N < 1 || s.I < 1 || s.I > s.N {
		return Shard{}, diag.Errorf(BadOptions, "write it as 1/4 … 4/4", "shard %q is not I/N with 1 <= I <= N", text)
	}
	return s, nil
}

// String returns the text ParseShard reads.
func (s Shard) String() string {
	if s.N == 0 {
		return ""
	}
	return strconv.Itoa(s.I) + "/" + strconv.Itoa(s.N)
}

// has reports whether index i belongs to the shard.
func (s Shard) has(i int) bool { return s.N == 0 || i%s.N == s.I-1 }

// count returns how many of n indexes belong to the shard.
func (s Shard) count(n int) int {
	if s.N == 0 {
		return n
	}
	return (n - s.I + s.N) / s.N
}

// plan is the list of cases of a campaign. It is a pure function of configuration, kind and options.
type plan struct {
	seed     uint64
	segments []segment
	total    int
}

// segment is a run of consecutive indexes of one subject.
type segment struct {
	subject *subject
	dtype   dtype.DType // of all its cases; Invalid: drawn per case
	first   int         // index of its first case in the plan
	count   int
	quick   bool
	// streams hold the cases, taken in turn: case k of the segment is case base+k of streams[k % len].
	streams []*gen.Stream
	base    int
	label   string // what stands for the case text where there are no streams: a kernel
}

// item is one case of a plan.
type item struct {
	index   int
	subject *subject
	quick   bool
	cas     opspec.Case
	dtype   string
	err     error // the case could not be made
	label   string
}

// at returns the item of an index.
func (p *plan) at(i int) item {
	k := sort.Search(len(p.segments), func(k int) bool { return p.segments[k].first > i }) - 1
	seg := &p.segments[k]
	it := item{index: i, subject: seg.subject, quick: seg.quick, label: seg.label}
	if len(seg.streams) == 0 {
		return it
	}
	j := i - seg.first
	it.cas, it.err = seg.streams[j%len(seg.streams)].Case(seg.base + j)
	it.dtype = it.cas.DType.String()
	if it.err != nil && seg.dtype != dtype.Invalid {
		it.dtype = seg.dtype.String()
	}
	return it
}

func (p *plan) add(seg segment) {
	if seg.count > 0 {
		seg.first = p.total
		p.segments = append(p.segments, seg)
		p.total += seg.count
	}
}

// maxParallel bounds the processes of one run: no machine has more cores for them.
const maxParallel = 1024

// dtypeStride separates the streams of the dtypes of one op, so that each case of a run has a seed of its own. No run
// has as many cases per op and dtype (MaxCases).
const dtypeStride = 1 << 24

// extendedShapes are the shape strategies of the thorough cases, taken in turn. Large tensors cost more than others;
// empty ones show less, and an operator may decide on none of their elements (attention to no key at all), which must
// stay well below the share of undecided cases that makes a run not green.
var extendedShapes = []string{
	"tile_aware", "boundary", "default", "tile_aware", "regular",
	"boundary", "zero_size", "default", "tile_aware", "large",
	"tile_aware", "boundary", "default", "tile_aware", "regular",
	"boundary", "tile_aware", "default", "tile_aware", "boundary",
}

// newPlan lays out the cases.
func newPlan(kind string, cfg *config.Config, o *Options) (*plan, []*subject, error) {
	if err := o.check(kind); err != nil {
		return nil, nil, err
	}
	subjects, err := chooseSubjects(cfg, o.Ops)
	if err != nil {
		return nil, nil, err
	}
	p := &plan{seed: masterSeed(cfg, o)}
	for _, s := range subjects {
		if kind == KindFuzz {
			err = p.addFuzz(s, o)
		} else {
			err = p.addTest(s, cfg, kind, o)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("op %q: %w", s.name, err)
		}
	}
	if kind != KindFuzz && len(o.Ops) == 0 && cfg != nil {
		p.addKernels(cfg)
	}
	if p.total > MaxCases {
		return nil, nil, diag.Errorf(BadOptions, "use fewer iterations, or several runs with other seeds",
			"%d cases asked for, at most %d are allowed", p.total, MaxCases)
	}
	return p, subjects, nil
}

func (o *Options) check(kind string) error {
	switch {
	case o.Iterations < 0:
		return diag.Errorf(BadOptions, "use 1 or more", "%d iterations asked for", o.Iterations)
	case o.Iterations > MaxCases:
		return diag.Errorf(BadOptions, fmt.Sprintf("use at most %d, and other seeds for more", MaxCases),
			"%d iterations asked for", o.Iterations)
	case o.Parallel < 0 || o.Parallel > maxParallel:
		return diag.Errorf(BadOptions, fmt.Sprintf("use 0 for one per CPU, or at most %d", maxParallel),
			"parallel is %d", o.Parallel)
	case o.TimeLimit < 0:
		return diag.Errorf(BadOptions, "use a positive duration such as 90s", "time limit is %s", o.TimeLimit)
	case kind == KindFuzz && o.Seed == nil:
		return diag.Errorf(BadOptions, "", "fuzz needs a seed")
	}
	return nil
}

// masterSeed: the option, then the configuration, then 1.
func masterSeed(cfg *config.Config, o *Options) uint64 {
	switch {
	case o.Seed != nil:
		return *o.Seed
	case cfg != nil && cfg.Validation.HasSeed:
		return cfg.Validation.Seed
	}
	return 1
}

// chooseSubjects resolves the ops asked for, or all of the configuration.
func chooseSubjects(cfg *config.Config, names []string) ([]*subject, error) {
	var out []*subject
	if len(names) == 0 {
		if cfg == nil {
			return nil, nil
		}
		for _, op := range cfg.Subjects() {
			s, err := newSubject(cfg, op)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		return out, nil
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		s, err := resolveSubject(cfg, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// addFuzz: the cases of gpuemu cases with the same arguments, in the same order.
func (p *plan) addFuzz(s *subject, o *Options) error {
	n := o.Iterations
	if n == 0 {
		n = DefaultIterations
	}
	stream, err := newStream(s, s.strategy(o), p.seed)
	if err != nil {
		return err
	}
	p.add(segment{subject: s, count: n, streams: []*gen.Stream{stream}})
	return nil
}

// newStream checks that there is a first case, so that a schema without cases is an error of the configuration.
func newStream(s *subject, st gen.Strategy, seed uint64) (*gen.Stream, error) {
	stream, err := gen.Cases(s.schema, st, seed)
	if err != nil {
		return nil, err
	}
	if _, err := stream.Case(0); err != nil {
		return nil, err
	}
	return stream, nil
}

// addTest: per dtype the quick cases first (default shapes), then the extended ones, so that a quick run is a subset
// of a thorough run with the same seed.
func (p *plan) addTest(s *subject, cfg *config.Config, kind string, o *Options) error {
	quick, thorough := 10, 200 // the documented defaults of [ci.quick] and [ci]
	asked := o.DTypes
	if cfg != nil {
		quick, thorough = cfg.CI.Quick.FuzzIterations, cfg.CI.FuzzIterations
		if o.Quick && len(asked) == 0 {
			asked = s.quickTypes(cfg.CI.Quick.DTypes)
		}
	}
	if o.Quick && len(asked) == 0 {
		asked = []dtype.DType{dtype.Float32}
	}
	for _, d := range s.types(asked, len(o.DTypes) > 0) {
		st := s.strategy(o)
		st.DTypes = []dtype.DType{d}
		stream, err := newStream(s, st, p.seed)
		if err != nil {
			return err
		}
		base := int(d) * dtypeStride
		p.add(segment{subject: s, dtype: d, count: min(quick, max(thorough, quick)), quick: true,
			streams: []*gen.Stream{stream}, base: base})
		if o.Quick || thorough <= quick {
			continue
		}
		streams := []*gen.Stream{stream}
		if st.Shapes == "" || st.Shapes == "default" {
			if streams, err = extendedStreams(s, st, p.seed); err != nil {
				return err
			}
		}
		p.add(segment{subject: s, dtype: d, count: thorough - quick, streams: streams, base: base + quick})
	}
	return nil
}

// extendedStreams returns one stream per extended shape strategy that the op has: not every op takes empty tensors,
// and some have no axis that may be long.
func extendedStreams(s *subject, st gen.Strategy, seed uint64) ([]*gen.Stream, error) {
	var out []*gen.Stream
	var firstErr error
	for _, shapes := range extendedShapes {
		st.Shapes = shapes
		stream, err := newStream(s, st, seed)
		if err != nil {
			firstErr = err
			continue
		}
		out = append(out, stream)
	}
	if len(out) == 0 {
		return nil, firstErr
	}
	return out, nil
}

// addKernels lists the kernels that have something to be compared with and no launch: they cannot be run, and the run
// says so.
func (p *plan) addKernels(cfg *config.Config) {
	for i := range cfg.Kernels {
		k := &cfg.Kernels[i]
		if k.Reference == "" || k.Executed() {
			continue // only its artifact is looked at, or it is a subject
		}
		p.add(segment{count: 1, label: "kernel " + k.Name, subject: &subject{name: k.Name, blocked: &blocked{
			verdict.NoCandidate, "the kernel has a reference, and nothing says how to launch it",
			"add grid, block and args (docs/emulate.md), or leave reference out"}}})
	}
}
