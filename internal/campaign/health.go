package campaign

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the health checks: remarks on the campaign itself, not on a kernel.

// Names of the health checks, as [validation] silence takes them.
const (
	HealthRejected     = "rejected_cases"
	HealthConstant     = "constant_outputs"
	HealthUndetermined = "undetermined_elements"
	HealthUndecided    = "undecided_cases"
	HealthVacuous      = "vacuous_cases"
	HealthCapped       = "capped_sizes"
	HealthUnchecked    = "unchecked_invariants"
	HealthSpread       = "reference_spread"
	HealthReplaced     = "replaced_kernels"
)

// Shares above which a check speaks. Half is far above what the generators give for any operator of the catalogue; a
// tenth is the rule of the exit code.
const (
	constantShare     = 0.5
	undeterminedShare = 0.5
	rejectedShare     = 0.1
	healthMinCases    = 5 // fewer say nothing

	vacuousShare        = 0.02 // of cases: what the generators keep to for every operator of the catalogue
	vacuousElementShare = 0.5  // of elements: tolerances may pass over small ones, but not over most of them unnoticed
)

// health counts what the checks need, by op. The zero value is ready.
type health struct {
	ops    map[string]*opHealth
	capped map[string]string // by op: which sizes are never drawn
}

type opHealth struct {
	cases, rejected, constant, judged, undecided int
	elements, undetermined, spread               int
	vacuous, vacuousElements                     int            // cases, and elements of all cases
	batches                                      map[string]int // invariants of batches: outputs that were checked
	note                                         string         // what was executed in place of what was asked for
}

// cap notes sizes of an op that are never drawn.
func (h *health) cap(op, sizes string) {
	if h.capped == nil {
		h.capped = map[string]string{}
	}
	h.capped[op] = sizes
}

func (h *health) add(r *verdict.Result) {
	if h.ops == nil {
		h.ops = map[string]*opHealth{}
	}
	op := h.ops[r.Op]
	if op == nil {
		op = &opHealth{}
		h.ops[r.Op] = op
	}
	op.cases++
	if op.note == "" {
		op.note = r.Note
	}
	if r.Seed == 0 && r.Reason == verdict.Unsupported {
		op.rejected++
	}
	if r.Verdict == verdict.Undecided {
		op.undecided++
	}
	if r.Reason == verdict.Vacuous {
		op.vacuous++
	}
	op.addBatches(r.Invariants)
	if len(r.Outputs) == 0 {
		return
	}
	op.judged++
	if r.Outputs[0].Regime == compare.Spread.String() {
		op.spread++
	}
	all := true
	for i := range r.Outputs {
		op.elements += r.Outputs[i].Elements
		op.undetermined += r.Outputs[i].Undetermined
		op.vacuousElements += r.Outputs[i].Vacuous
		all = all && r.Outputs[i].Constant
	}
	if all {
		op.constant++
	}
}

// checks returns the remarks, by op in alphabetical order.
func (h *health) checks(silenced []string) []verdict.HealthCheck {
	var names []string
	for name := range h.ops {
		names = append(names, name)
	}
	sort.Strings(names)
	var out []verdict.HealthCheck
	say := func(check, op, message, hint string) {
		if !slices.Contains(silenced, check) {
			out = append(out, verdict.HealthCheck{Check: check, Op: op, Message: message,
				Hint: hint + fmt.Sprintf("; silence = [%q] under [validation] keeps this quiet", check)})
		}
	}
	for _, name := range names {
		op := h.ops[name]
		if sizes := h.capped[name]; sizes != "" {
			say(HealthCapped, name, fmt.Sprintf("%s: never drawn, because a tensor would have more than %d elements", sizes,
				gen.DefaultMaxElems), "test the kernel on smaller sizes, or split the dimension")
		}
		if over(op.vacuous, op.cases, vacuousShare) || over(op.vacuousElements, op.elements, vacuousElementShare) {
			say(HealthVacuous, name, fmt.Sprintf("%d of %d cases (%.1f %%) would have passed with garbage too and count as "+
				"undecided; %d of %d elements would accept zeros, the mean or a neighboring row", op.vacuous, op.cases,
				100*float64(op.vacuous)/float64(op.cases), op.vacuousElements, op.elements), vacuousHint)
		}
		if op.note != "" {
			say(HealthReplaced, name, op.note, "the results are those of that code: install a newer compiler, or ask for "+
				"an architecture that it knows")
		}
		if op.cases < healthMinCases {
			continue
		}
		if over(op.rejected, op.cases, rejectedShare) {
			say(HealthRejected, name, fmt.Sprintf("%d of %d cases could not be made from the schema", op.rejected, op.cases),
				"loosen the schema's relations or give its dims candidates that fulfil them")
		}
		for _, invariant := range op.uncheckedBatches() {
			say(HealthUnchecked, name, fmt.Sprintf("%s was checked in none of %d cases: no output has several rows of a batch",
				invariant, op.cases), "draw larger batches: candidates of the schema, or --dims")
		}
		if over(op.constant, op.judged, constantShare) {
			say(HealthConstant, name, fmt.Sprintf("the output is one constant in %d of %d cases, which tests little",
				op.constant, op.judged), "check that the candidate reads its inputs, or choose other --values")
		}
		if over(op.undetermined, op.elements, undeterminedShare) {
			say(HealthUndetermined, name, fmt.Sprintf("%d of %d elements are undetermined: the contract does not decide there",
				op.undetermined, op.elements), "use values = \"normal\", or nonfinite = \"forbid\" for finite inputs only")
		}
		if op.spread > 0 {
			say(HealthSpread, name, fmt.Sprintf("%d of %d cases are judged by the reference's own spread: "+
				"no bound of the op is known", op.spread, op.cases), "set schema = \"NAME\" if the op is one of the catalogue "+
				"(gpuemu ops), or tolerances")
		}
		if over(op.undecided, op.cases, verdict.UndecidedShare) {
			say(HealthUndecided, name, fmt.Sprintf("%d of %d cases are undecided, so the run is not green",
				op.undecided, op.cases), "use values = \"normal\", or nonfinite = \"forbid\" for finite inputs only")
		}
	}
	return out
}

func over(part, whole int, share float64) bool { return float64(part) > share*float64(whole) }

// cappedSizes names the candidates of a schema that no generated case has, because with everything else as small as it
// goes a tensor is still larger than the generators make.
func cappedSizes(s *opspec.Schema) string {
	program, err := s.Compile()
	if err != nil {
		return ""
	}
	smallest := map[string]int{}
	for i := range s.Dims {
		if d := &s.Dims[i]; !d.Derived() {
			sizes, _ := d.Sizes()
			smallest[d.Name] = max(slices.Min(sizes), 1)
		}
	}
	var found []string
	for i := range s.Dims {
		d := &s.Dims[i]
		if d.Derived() {
			continue
		}
		for _, size := range d.Candidates {
			dims := maps.Clone(smallest)
			dims[d.Name] = size
			inputs, outputs, err := program.Resolve(dims, s.DefaultAttrs())
			if err != nil {
				continue // the relations forbid this combination; another may be allowed
			}
			for _, shapes := range []map[string]tensor.Shape{inputs, outputs} {
				for _, shape := range shapes {
					if shape.Elems() > gen.DefaultMaxElems && !slices.Contains(found, fmt.Sprintf("%s = %d", d.Name, size)) {
						found = append(found, fmt.Sprintf("%s = %d", d.Name, size))
					}
				}
			}
		}
	}
	return strings.Join(found, ", ")
}
