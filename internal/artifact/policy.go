package artifact

// This file implements the policy that kernels are held to.

import (
	"fmt"
	"slices"

	"gpuemu/internal/pattern"
)

// Policy are limits on a kernel; nil means no limit. Sizes are in bytes.
type Policy struct {
	MaxRegisters    *int `json:"max_registers,omitempty"`
	MaxSpills       *int `json:"max_spills,omitempty"` // stores and loads together
	MaxLocalMemory  *int `json:"max_local_memory,omitempty"`
	MaxShared       *int `json:"max_shared,omitempty"` // static alone
	MaxInstructions *int `json:"max_instructions,omitempty"`
	MaxStack        *int `json:"max_stack,omitempty"`

	Required  []pattern.Pattern `json:"required_patterns,omitempty"`
	Forbidden []pattern.Pattern `json:"forbidden_patterns,omitempty"`

	// Strict makes a limit count also where the figure is an estimate or is not known.
	Strict bool `json:"strict,omitempty"`
}

// DefaultPolicy has the documented limits: 64 registers, no spills, no local memory.
func DefaultPolicy() Policy {
	registers := 64
	return Policy{MaxRegisters: &registers, MaxSpills: new(int), MaxLocalMemory: new(int)}
}

// Severity says whether a violation fails the run.
type Severity string

const (
	// Fault is a violation that fails the run.
	Fault Severity = "error"
	// Note is a violation by an estimate, or a limit that cannot be checked: it fails nothing.
	Note Severity = "note"
)

// ViolationKind is which rule a violation is about.
type ViolationKind string

// Kinds of violations.
const (
	ExcessiveRegisters     ViolationKind = "excessive_registers"
	ExcessiveSpills        ViolationKind = "excessive_spills"
	ExcessiveLocalMemory   ViolationKind = "excessive_local_memory"
	ExcessiveShared        ViolationKind = "excessive_shared_memory"
	ExcessiveInstructions  ViolationKind = "excessive_instructions"
	ExcessiveStack         ViolationKind = "excessive_stack"
	MissingRequiredPattern ViolationKind = "missing_required_pattern"
	ForbiddenPatternFound  ViolationKind = "forbidden_pattern_found"
)

// ViolationKinds are all kinds.
func ViolationKinds() []ViolationKind {
	return []ViolationKind{ExcessiveRegisters, ExcessiveSpills, ExcessiveLocalMemory, ExcessiveShared,
		ExcessiveInstructions, ExcessiveStack, MissingRequiredPattern, ForbiddenPatternFound}
}

// Violation is a rule that a kernel breaks, or that cannot be checked.
type Violation struct {
	Kind     ViolationKind `json:"kind"`
	Severity Severity      `json:"severity"`
	Message  string        `json:"message"`
	Hint     string        `json:"hint,omitempty"`
	Actual   *Figure       `json:"actual,omitempty"` // nil where it is not known, and of patterns that are missing
	Limit    *int          `json:"limit,omitempty"`  // nil of patterns
	Pattern  string        `json:"pattern,omitempty"`
	File     string        `json:"file"`
	Place
}

// Result is what the policy says of one kernel.
type Result struct {
	Kernel     string      `json:"kernel"`
	Arch       string      `json:"arch,omitempty"`
	Violations []Violation `json:"violations"`
}

// Passed reports whether nothing fails the run.
func (r *Result) Passed() bool {
	return !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Severity == Fault })
}

// Lint holds a kernel to a policy.
func Lint(m *Metrics, p Policy) Result {
	l := linter{m: m, strict: p.Strict, result: Result{Kernel: m.Kernel, Arch: m.Arch, Violations: []Violation{}}}
	const needCubin = "give the cubin as well: nvcc -cubin, or ptxas of this PTX"
	l.limit(ExcessiveRegisters, "registers per thread", m.Registers, p.MaxRegisters, needCubin)
	l.limit(ExcessiveSpills, "bytes of spill stores and loads", m.Spills(), p.MaxSpills,
		"give a cubin of CUDA 12.6 or newer, or a listing of cuobjdump -sass")
	l.limit(ExcessiveLocalMemory, "bytes of local memory per thread", m.Local, p.MaxLocalMemory, needCubin)
	l.limit(ExcessiveStack, "bytes of stack per thread", m.Stack, p.MaxStack, needCubin)
	l.limit(ExcessiveShared, "bytes of static shared memory", m.SharedStatic, p.MaxShared, needCubin)
	l.limit(ExcessiveInstructions, "instructions", m.Instructions(), p.MaxInstructions,
		"give the PTX, or a listing of cuobjdump -sass")
	l.partial(ExcessiveInstructions, p.MaxInstructions)
	for _, pat := range p.Required {
		l.required(pat)
	}
	for _, pat := range p.Forbidden {
		l.forbidden(pat)
	}
	return l.result
}

// linter collects what is found.
type linter struct {
	m      *Metrics
	strict bool
	result Result
}

// add reports a violation; one that rests on no fact is a note.
func (l *linter) add(v Violation, fact bool) {
	v.Severity = Fault
	if !fact && !l.strict {
		v.Severity = Note
	}
	l.result.Violations = append(l.result.Violations, v)
}

// limit checks a figure.
func (l *linter) limit(kind ViolationKind, what string, actual *Figure, most *int, remedy string) {
	if most == nil || actual != nil && actual.Value <= *most {
		return
	}
	v := Violation{Kind: kind, Actual: actual, Limit: most}
	src := l.m.Sources[0]
	if actual == nil {
		v.Message = fmt.Sprintf("%s: %s are not known from %s, at most %d are allowed", l.m.Kernel, what, l.known(), *most)
		v.Hint = remedy
		v.File, v.Place = src.File, src.Place
		l.add(v, false)
		return
	}
	src = l.sourceOf(actual.Origin)
	v.File, v.Place = src.File, src.Place
	switch actual.Origin {
	case Estimated:
		v.Message = fmt.Sprintf("%s: about %d %s (estimated from PTX), at most %d are allowed", l.m.Kernel, actual.Value,
			what, *most)
		v.Hint = remedy
	case Declared:
		v.Message = fmt.Sprintf("%s: %d %s in PTX, at most %d are allowed", l.m.Kernel, actual.Value, what, *most)
	default:
		v.Message = fmt.Sprintf("%s: %d %s, at most %d are allowed", l.m.Kernel, actual.Value, what, *most)
	}
	l.add(v, !actual.Estimated())
}

// partial notes that a limit on instructions which is kept says little: some code is not counted.
func (l *linter) partial(kind ViolationKind, most *int) {
	counted := l.m.Instructions()
	if most == nil || counted == nil || counted.Value > *most {
		return
	}
	l.dialects(func(d pattern.Dialect, kindOf SourceKind, c *Code) {
		if c.Partial == "" || d == pattern.PTX && l.m.SASSCode != nil { // those of the machine are held to the limit
			return
		}
		src, _ := l.m.Source(kindOf)
		l.add(Violation{Kind: kind, Actual: counted, Limit: most, File: src.File, Place: src.Place, Hint: wholeCode,
			Message: fmt.Sprintf("%s: more than the %d counted instructions, at most %d are allowed: %s", l.m.Kernel,
				counted.Value, *most, c.Partial)}, false)
	})
}

// wholeCode is what helps where code is not in the text.
const wholeCode = "give the text with all functions that are called, or a listing of the linked code"

// known names what the record was read from.
func (l *linter) known() string {
	text := ""
	for i, s := range l.m.Sources {
		if i > 0 {
			text += " and "
		}
		text += string(s.Kind)
	}
	return text
}

// sourceOf is the file that a figure comes from; places in PTX are preferred where the figure's own file has no lines.
func (l *linter) sourceOf(o Origin) Source {
	kind := PTX
	switch o {
	case FromCubin:
		kind = Cubin
	case FromSASS:
		kind = SASS
	}
	if s, ok := l.m.Source(kind); ok && s.Line > 0 {
		return s
	}
	return l.m.Sources[0]
}

// dialects pairs the code of the record with its language.
func (l *linter) dialects(visit func(pattern.Dialect, SourceKind, *Code)) {
	if l.m.PTXCode != nil {
		visit(pattern.PTX, PTX, l.m.PTXCode)
	}
	if l.m.SASSCode != nil {
		visit(pattern.SASS, SASS, l.m.SASSCode)
	}
}

// required checks that some instruction matches.
func (l *linter) required(pat pattern.Pattern) {
	found, looked := false, false
	l.dialects(func(d pattern.Dialect, _ SourceKind, c *Code) {
		if pat.Of(d) {
			looked = true
			found = found || slices.ContainsFunc(c.Mnemonics, func(m Mnemonic) bool { return pat.Match(d, m.Name) })
		}
	})
	if found {
		return
	}
	v := Violation{Kind: MissingRequiredPattern, Pattern: pat.String(), File: l.m.Sources[0].File}
	v.Place = l.m.Sources[0].Place
	if looked {
		v.Message = fmt.Sprintf("%s: no instruction matches the required pattern %q", l.m.Kernel, pat)
	} else {
		v.Message, v.Hint = l.unchecked(pat)
	}
	l.add(v, looked)
}

// unchecked says that there is no code that a pattern could be looked for in.
func (l *linter) unchecked(pat pattern.Pattern) (message, hint string) {
	hint = "give the PTX as well"
	if !pat.Of(pattern.PTX) {
		hint = "give a listing of cuobjdump -sass as well"
	}
	return fmt.Sprintf("%s: the pattern %q cannot be looked for in %s", l.m.Kernel, pat, l.known()), hint
}

// forbidden reports the instructions that match, in one violation per mnemonic.
func (l *linter) forbidden(pat pattern.Pattern) {
	looked := false
	l.dialects(func(d pattern.Dialect, kind SourceKind, c *Code) {
		if !pat.Of(d) {
			return
		}
		looked = true
		src, _ := l.m.Source(kind)
		found := false
		for _, m := range c.Mnemonics {
			if pat.Match(d, m.Name) {
				l.found(pat, src, m)
				found = true
			}
		}
		if !found && c.Partial != "" {
			l.add(Violation{Kind: ForbiddenPatternFound, Pattern: pat.String(), File: src.File, Place: src.Place,
				Hint:    wholeCode,
				Message: fmt.Sprintf("%s: the forbidden pattern %q cannot be ruled out: %s", l.m.Kernel, pat, c.Partial)}, false)
		}
	})
	if looked {
		return
	}
	v := Violation{Kind: ForbiddenPatternFound, Pattern: pat.String(), File: l.m.Sources[0].File}
	v.Place = l.m.Sources[0].Place
	v.Message, v.Hint = l.unchecked(pat)
	l.add(v, false)
}

// found reports a mnemonic that matches a forbidden pattern, at its first place.
func (l *linter) found(pat pattern.Pattern, src Source, m Mnemonic) {
	origin := Declared
	if src.Kind == SASS {
		origin = FromSASS
	}
	v := Violation{Kind: ForbiddenPatternFound, Pattern: pat.String(), File: src.File, Actual: &Figure{m.Count, origin},
		Message: fmt.Sprintf("%s: %s matches the forbidden pattern %q", l.m.Kernel, m.Name, pat)}
	if len(m.Places) > 0 {
		v.Place = m.Places[0]
	}
	if m.Count > 1 {
		v.Message += fmt.Sprintf(" (%d times; this is the first)", m.Count)
	}
	l.add(v, true)
}
