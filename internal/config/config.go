// Package config reads gpuemu.toml, the description of a project: its ops and kernels, what is tested and how outputs
// are judged.
//
// It finds the file, parses it strictly (an unknown key is an error with its place and the nearest known key) and fills
// in defaults. It resolves no names of the catalogue, of distributions or of invariants, runs nothing and touches no
// other file. The main type is Config. Every key is defined once, in define.go; reading, the JSON Schema for editors
// and docs/config.md come from that definition.
package config

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
)

// Config is one gpuemu.toml with its defaults filled in.
type Config struct {
	Path   string // as given, for messages
	Dir    string // of the file; relative paths in it are relative to Dir
	Digest string // SHA-256 of the file's bytes, in hexadecimal

	Project    Project
	Validation Validation
	Ops        []Op
	Kernels    []Kernel
	Policies   Policies
	Store      Store
	CI         CI
}

// Project says what the project is.
type Project struct {
	Name, Version, Framework string
	Python                   string // interpreter of the ops that name none
}

// Validation is what holds for every op that does not say otherwise.
type Validation struct {
	DTypes             []dtype.DType
	HasDTypes          bool // false: DTypes are the default
	CheckNaN, CheckInf bool
	Seed               uint64 // master seed; 1 where none is given
	HasSeed            bool
	Tolerances         map[dtype.DType]compare.Tolerance // those given, no defaults
	Regime             compare.Regime                    // unset where none is given
	NonFinite          compare.NonFinite
	Values, Shapes     string
	Layouts            []tensor.Layout
	Ranks              []int    // drawn for tensors that may have any; nil: those of their dims
	Silence            []string // health checks that are not reported
}

// Mode says who executes an op.
type Mode uint8

const (
	// ModeUnset is no mode; Parse replaces it by the one that follows from the other keys.
	ModeUnset Mode = iota
	// ClientSide: the user's program runs the op and sends outputs.
	ClientSide
	// ScriptBased: a process per case, tensors as JSON on standard input and output.
	ScriptBased
	// Worker: a persistent process, or the catalogue's own implementation.
	Worker
	// Emulate: a compiled kernel on the emulator.
	Emulate
	// DaemonOrchestrated: a client fetches cases and submits outputs.
	DaemonOrchestrated
)

var modes = []named[Mode]{{"client_side", ClientSide}, {"script_based", ScriptBased}, {"worker", Worker},
	{"emulate", Emulate}, {"daemon_orchestrated", DaemonOrchestrated}, {"daemon_side", DaemonOrchestrated}}

// String returns the name used in gpuemu.toml.
func (m Mode) String() string {
	for _, n := range modes {
		if n.value == m {
			return n.name
		}
	}
	return "unset"
}

// Op is one [[ops]] entry. Empty lists and zero values mean that [validation] decides.
type Op struct {
	Name, Module                   string
	Reference, OpScript, Candidate string // as written: a path, file.py:function, worker:COMMAND or builtin:NAME
	InputNames                     []string
	Mode                           Mode // never unset after Parse
	Frameworks                     []string
	Tolerances                     map[dtype.DType]compare.Tolerance // those given, no defaults
	Regime                         compare.Regime
	Invariants                     []string // in the order of the file
	InvariantsOff                  []string // those that a table sets to false
	SchemaName                     string   // schema = "NAME"
	Schema                         *opspec.Schema
	Attributes                     map[string]any // int64, float64, bool or string
	MaxSizes                       map[string]int // by dimension of the schema
	Kwargs                         map[string]any // those, and []any and map[string]any of them
	Timeout                        time.Duration
	Memory                         int64 // bytes; 0: half of the machine's
	Env                            map[string]string
	Python                         string
	Raw                            bool
	DTypes                         []dtype.DType
	Values, Shapes                 string
	Layouts                        []tensor.Layout
	Ranks                          []int
	Kernel                         *OpKernel
}

// EmulatePrefix stands before the path of a kernel where a candidate is named.
const EmulatePrefix = "emulate:"

// Executable returns what runs as the candidate: a path, file.py:function, worker:COMMAND, builtin:NAME or, for a
// kernel on the emulator, emulate:FILE#ENTRY; "" if the configuration names nothing.
func (o *Op) Executable() string {
	if o.Mode == Emulate && o.Kernel != nil {
		l := &o.Kernel.Launch
		name := EmulatePrefix + cmp.Or(l.PTX, l.Source, l.Cubin)
		if l.Entry != "" {
			name += "#" + l.Entry
		}
		return name
	}
	if o.Candidate != "" {
		return o.Candidate
	}
	return o.OpScript
}

// EmulatesLaunches reports whether the candidate is a function whose launches of Triton kernels the emulator executes.
func (o *Op) EmulatesLaunches() bool {
	return o.Mode == Emulate && o.Kernel == nil && isFunction(o.Candidate)
}

// isFunction reports whether a candidate is file.py:function.
func isFunction(candidate string) bool {
	file, function, ok := strings.Cut(candidate, ".py:")
	return ok && file != "" && function != ""
}

// Launch says which compiled kernel to run and how. Package formula computes the expressions, which are over
// dimensions, attributes and tensors of a case; here they have been read, and their names are not known.
type Launch struct {
	PTX, Cubin  string
	Source      string   // compiled where there is no PTX
	Arch        string   // what the source is compiled for: "sm_90a"; "": cudatool.DefaultArch
	Flags       []string // further arguments of the compiler
	Entry       string
	Grid, Block []Expr // one to three
	Shared      Expr   // bytes of dynamic shared memory; no text: none
	Args        []Expr // in the order of the parameters
	Look        ptxvm.Checks
	Schedules   int    // orders of blocks and warps that are compared; 1: none
	Budget      uint64 // instructions of warps; 0: the emulator's own limit
	Memory      int64  // bytes; 0: the emulator's own limit
}

// Expr is an expression that package formula has read.
type Expr struct {
	Text string
	Pos  diag.Pos // of its first character in the file
}

// PerDType stands in ptx and entry for the number format of a case, as in softmax.{dtype}.ptx: a kernel that is
// compiled once per format is one op.
const PerDType = "{dtype}"

// IsPerDType reports whether there is one kernel for each number format.
func (l *Launch) IsPerDType() bool {
	return strings.Contains(l.PTX, PerDType) || strings.Contains(l.Entry, PerDType)
}

// In is the launch of cases in a number format.
func (l *Launch) In(d dtype.DType) Launch {
	own := *l
	own.PTX = strings.ReplaceAll(l.PTX, PerDType, d.String())
	own.Entry = strings.ReplaceAll(l.Entry, PerDType, d.String())
	return own
}

// Launched reports whether the launch says how: grid and block, at least.
func (l *Launch) Launched() bool { return len(l.Grid) > 0 && len(l.Block) > 0 }

// OpKernel is [ops.kernel]: the compiled kernel that is the op's candidate.
type OpKernel struct{ Launch }

// Kernel is one [[kernels]] entry.
type Kernel struct {
	Name, Reference string
	SASS            string // listing of the machine code
	Tolerances      map[dtype.DType]compare.Tolerance
	Invariants      []string
	InvariantsOff   []string
	DTypes          []dtype.DType // those it is executed in; nil: those of Validation
	Checks          ArtifactChecks
	Launch
}

// ArtifactChecks are limits on a compiled kernel. nil means no limit.
type ArtifactChecks struct {
	MaxRegisters, MaxSpills, MaxLocalMemory int
	MaxShared, MaxInstructions, MaxStack    *int
	RequiredPatterns, ForbiddenPatterns     []string // package pattern has read each
}

// Files are the compiled forms of the kernel or, where none is given, the source that has to be compiled.
func (k *Kernel) Files() []string {
	var files []string
	for _, path := range []string{k.PTX, k.Cubin, k.SASS} {
		if path != "" {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		files = append(files, k.Source)
	}
	return files
}

// Executed reports whether the kernel is run: it has something to be compared with, and a launch.
func (k *Kernel) Executed() bool { return k.Reference != "" && k.Launched() }

// Op is the kernel as an op whose candidate it is, with the catalogue's operator that Reference names.
func (k *Kernel) Op() *Op {
	return &Op{Name: k.Name, Reference: k.Reference, Mode: Emulate, Tolerances: k.Tolerances, Invariants: k.Invariants,
		InvariantsOff: k.InvariantsOff, DTypes: k.DTypes, Timeout: DefaultTimeout, Kernel: &OpKernel{k.Launch}}
}

// Policies say what a comparison with a baseline means.
type Policies struct {
	FailOnRegression                   bool
	WarnThreshold, RegressionThreshold float64
}

// Store says what is kept of runs.
type Store struct {
	MaxInputs int // MiB of stored inputs
}

// DefaultMaxInputs is the documented default of max_inputs.
const DefaultMaxInputs = 2048

// CI is what holds for gpuemu ci and gpuemu test.
type CI struct {
	FuzzIterations      int
	Parallel            int           // 0: one per CPU
	RegressionThreshold *float64      // nil: that of Policies
	ThoroughTimeout     time.Duration // 0: no limit
	Quick               Quick
}

// Quick is what --quick does.
type Quick struct {
	FuzzIterations int
	DTypes         []dtype.DType
}

// DefaultTimeout is the documented default of the key timeout.
const DefaultTimeout = 30 * time.Second

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Validation: Validation{
			DTypes: []dtype.DType{dtype.Float32, dtype.Float16}, CheckNaN: true, CheckInf: true, Seed: 1,
			NonFinite: compare.Match, Values: "mixed", Shapes: "default",
			Layouts: []tensor.Layout{tensor.Contiguous, tensor.Strided, tensor.Transposed},
		},
		Policies: Policies{WarnThreshold: 0.05, RegressionThreshold: 0.1},
		Store:    Store{MaxInputs: DefaultMaxInputs},
		CI:       CI{FuzzIterations: 200, Quick: Quick{FuzzIterations: 10, DTypes: []dtype.DType{dtype.Float32}}},
	}
}

// Op returns the op of that name.
func (c *Config) Op(name string) (*Op, bool) {
	for i := range c.Ops {
		if c.Ops[i].Name == name {
			return &c.Ops[i], true
		}
	}
	return nil, false
}

// Subjects are the ops and, as ops, the kernels that are executed.
func (c *Config) Subjects() []*Op {
	var out []*Op
	for i := range c.Ops {
		out = append(out, &c.Ops[i])
	}
	for i := range c.Kernels {
		if c.Kernels[i].Executed() {
			out = append(out, c.Kernels[i].Op())
		}
	}
	return out
}

// Kernel returns the kernel of that name.
func (c *Config) Kernel(name string) (*Kernel, bool) {
	for i := range c.Kernels {
		if c.Kernels[i].Name == name {
			return &c.Kernels[i], true
		}
	}
	return nil, false
}

// Compiled are the kernels that an entry stands for: one, or one called NAME.DTYPE for each of its number formats.
func (c *Config) Compiled(k *Kernel) []Kernel {
	if !k.IsPerDType() {
		return []Kernel{*k}
	}
	var out []Kernel
	for _, d := range c.DTypesOf(k.Op()) {
		own := *k
		own.Name, own.DTypes, own.Launch = k.Name+"."+d.String(), []dtype.DType{d}, k.In(d)
		out = append(out, own)
	}
	return out
}

// DTypesOf are the number formats that an op is tested in, without regard to what its schema takes: its own, else those
// of [validation]. A kernel is compiled for one format; where nobody names it, it is float32.
func (c *Config) DTypesOf(o *Op) []dtype.DType {
	switch {
	case len(o.DTypes) > 0:
		return o.DTypes
	case o.Mode == Emulate && o.Kernel != nil && !o.Kernel.IsPerDType() && !c.Validation.HasDTypes:
		return []dtype.DType{dtype.Float32}
	}
	return c.Validation.DTypes
}

// Threshold returns by how much the largest error of an op may grow before that is a regression: 0.1 is 10 %. The key
// of [ci] beats that of [policies].
func (c *Config) Threshold() float64 {
	if c.CI.RegressionThreshold != nil {
		return *c.CI.RegressionThreshold
	}
	return c.Policies.RegressionThreshold
}

// Tolerance returns the tolerance that the configuration gives for an op and dtype: the op's, else that of
// [validation]. ok is false where neither gives one; the tolerance is then the default of the dtype.
func (c *Config) Tolerance(o *Op, d dtype.DType) (t compare.Tolerance, ok bool) {
	if t, ok := o.Tolerances[d]; ok {
		return t, true
	}
	if t, ok := c.Validation.Tolerances[d]; ok {
		return t, true
	}
	return compare.DefaultTolerance(d), false
}

// Abs returns a path of the file as seen from anywhere.
func (c *Config) Abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir, path)
}
