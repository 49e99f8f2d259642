// This file implements the definition of gpuemu.toml: every key with its meaning, its kind and where it goes.

package config

import (
	"slices"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
)

// Limits of a project.
const (
	maxOps     = 10000
	maxKernels = 10000
)

var regimes = []named[compare.Regime]{{"bound", compare.Bound}, {"calibrated", compare.Calibrated},
	{"fixed", compare.Fixed}, {"spread", compare.Spread}}

var nonFinites = []named[compare.NonFinite]{{"match", compare.Match}, {"forbid", compare.Forbid}}

// Docs of keys that several tables have.
const (
	docTolerances = "tolerances per dtype: a number is both the absolute and the relative part; a part that a table " +
		"leaves out keeps the default of the dtype"
	docInvariants = "properties of the output that need no reference"
	docThreshold  = "by how much the largest error may grow against the baseline before that is a regression: 0.1 is 10 %"
)

// aliases are the second names of keys: read aside, and compared when the whole document is known.
type aliases struct {
	parallel    *int
	quickDTypes []dtype.DType
}

// documentKeys are the tables of gpuemu.toml.
func documentKeys(c *Config, a *aliases) []key {
	ops, kernels, executed := map[string]bool{}, map[string]bool{}, map[string]bool{} // names seen so far
	return []key{
		{"project", "what the project is", table(projectKeys(&c.Project), nil)},
		{"validation", "what holds for every op that does not say otherwise", table(validationKeys(&c.Validation), nil)},
		{"ops", "the ops under test, one entry each", tables(&c.Ops, maxOps, newOp, opKeys,
			func(r *reader, n *node, o *Op) { r.checkOp(n, o, ops, executed) })},
		{"kernels", "the compiled kernels, one entry each", tables(&c.Kernels, maxKernels, newKernel, kernelKeys,
			func(r *reader, n *node, k *Kernel) {
				r.checkKernel(n, k, kernels)
				r.checkExecuted(n, k, ops, executed)
			})},
		{"policies", "what a comparison with a baseline means", table(policyKeys(&c.Policies), nil)},
		{"store", "what is kept of runs in GPUEMU_HOME", table([]key{
			{"max_inputs", "MiB of stored inputs of failures, of all projects together: a run that begins with more deletes " +
				"the oldest; their results stay, and what the case text alone gives can still be repeated",
				whole(1, false, c.Store.MaxInputs, func(v int) { c.Store.MaxInputs = min(v, 1<<30) })},
		}, nil)},
		{"ci", "runs of gpuemu ci and gpuemu test", table(ciKeys(&c.CI, a),
			func(r *reader, n *node) { r.checkCI(n, &c.CI, a) })},
	}
}

func projectKeys(p *Project) []key {
	return []key{
		{"name", "the project's name, for reports", text(&p.Name)},
		{"version", "the project's version; informational, nothing depends on it", text(&p.Version)},
		{"framework", "what the kernels are written for: pytorch, jax, tensorflow, triton, cuda, numpy", text(&p.Framework)},
		{"python", "interpreter for Python candidates and references; default: GPUEMU_PYTHON, $VIRTUAL_ENV, .venv beside " +
			"this file, python3", text(&p.Python)},
	}
}

func validationKeys(v *Validation) []key {
	return []key{
		{"dtypes", "number formats that are tested", noting(&v.HasDTypes, dtypes(&v.DTypes))},
		{"check_nan", "a NaN where the reference has none is a failure; false: it is counted only", flag(&v.CheckNaN)},
		{"check_inf", "an infinity where the reference has none is a failure; false: it is counted only", flag(&v.CheckInf)},
		{"seed", "master seed of test and ci", seed(&v.Seed, &v.HasSeed)},
		{"tolerances", docTolerances, tolerances(&v.Tolerances)},
		{"tolerance", "where the tolerance comes from; default: tolerances if given, else the bound of the catalogue, " +
			"else a stored calibration, else the spread of the reference (spread), else the default of the dtype (fixed)",
			choice(&v.Regime, regimes)},
		{"nonfinite", "match: NaN matches only NaN, an infinity only itself; forbid: any NaN or infinity is a failure, " +
			"and only finite values are generated", choice(&v.NonFinite, nonFinites)},
		{"values", "how values are drawn (docs/cases.md)", text(&v.Values)},
		{"shapes", "how dimensions are chosen (docs/cases.md)", text(&v.Shapes)},
		{"layouts", "memory layouts of inputs", layouts(&v.Layouts)},
		{"ranks", "ranks that are drawn for tensors which may have any (docs/ops.md), as [1, 2, 3, 4, 5]; default: those " +
			"of the operator's own dims", ranks(&v.Ranks)},
		{"silence", "names of health checks that are not reported", texts(&v.Silence)},
	}
}

func newOp() Op { return Op{Timeout: DefaultTimeout} }

func opKeys(o *Op) []key {
	kernel := &OpKernel{newLaunch()}
	const entry = "default: the one called name, else the only one"
	nested := table(launchKeys(&kernel.Launch, entry), func(*reader, *node) { o.Kernel = kernel })
	return []key{
		{"name", "the op's name, unique in the file", text(&o.Name).required()},
		{"module", "where the op comes from: a Python module; informational, nothing depends on it", text(&o.Module)},
		{"reference", "what knows the right answer: a script, file.py:function, worker:COMMAND or builtin:NAME; " +
			"default: the catalogue", text(&o.Reference)},
		{"candidate", "what is tested: a script, file.py:function, worker:COMMAND or builtin:NAME", text(&o.Candidate)},
		{"op_script", "the candidate as a script: JSON on standard input and output", text(&o.OpScript)},
		{"input_names", "names of the inputs, in order", texts(&o.InputNames)},
		{"execution_mode", "who executes the candidate; emulate: the emulator, [ops.kernel] or the launches of Triton " +
			"kernels by a function; default: what candidate, op_script or kernel call for, without them client_side",
			choice(&o.Mode, modes)},
		{"frameworks", "frameworks the op exists for; informational, nothing depends on it", texts(&o.Frameworks)},
		{"tolerances", docTolerances, tolerances(&o.Tolerances)},
		{"tolerance", "where the tolerance comes from", choice(&o.Regime, regimes)},
		{"invariants", docInvariants, invariants(&o.Invariants, &o.InvariantsOff)},
		{"schema", "what cases are generated from: an operator of the catalogue, or a table [ops.schema] of the form that " +
			"gpuemu ops NAME --format json shows", opSchema(o)},
		{"attributes", "attributes of the schema that are not drawn, such as compute = \"storage\"",
			scalars(&o.Attributes)},
		{"max_sizes", "largest sizes that the kernel is made for, by dimension of the schema; larger ones are not drawn",
			sizes(&o.MaxSizes)},
		{"kwargs", "further arguments of candidate and reference", arguments(&o.Kwargs)},
		{"timeout", "time limit of one call, in seconds", duration(&o.Timeout)},
		{"memory", "memory that candidate and reference may each use in a call, such as 2GiB (without cgroups: " +
			"that each process may reserve); default: half of this machine's, whatever is reserved", memory(&o.Memory)},
		{"env", "environment variables of candidate and reference", environment(&o.Env)},
		{"python", "interpreter for this op; default: that of [project]", text(&o.Python)},
		{"raw", "bfloat16 and float8 arrive as unsigned integers of the same size", flag(&o.Raw)},
		{"dtypes", "number formats that are tested; default: those of [validation], else, for a kernel, float32",
			dtypes(&o.DTypes)},
		{"values", "how values are drawn; default: that of [validation]", text(&o.Values)},
		{"shapes", "how dimensions are chosen; default: that of [validation]", text(&o.Shapes)},
		{"layouts", "memory layouts of inputs; default: those of [validation]", layouts(&o.Layouts)},
		{"ranks", "ranks that are drawn; default: those of [validation]", ranks(&o.Ranks)},
		{"kernel", "the compiled kernel that is tested", nested},
	}
}

func newLaunch() Launch { return Launch{Look: ptxvm.AllChecks, Schedules: 1} }

// launchKeys are those of a compiled kernel; entry says what stands for a missing entry.
func launchKeys(l *Launch, entry string) []key {
	return []key{
		{"ptx", "PTX file; " + PerDType + " in it stands for the number format of the case, such as float16", text(&l.PTX)},
		{"cubin", "compiled image; it is looked at, not executed", text(&l.Cubin)},
		{"source", "source file; a .cu file without ptx, cubin and sass is compiled by nvcc or clang", text(&l.Source)},
		{"arch", "what the source is compiled for, such as sm_90a; default: " + cudatool.DefaultArch, arch(&l.Arch)},
		{"flags", "further arguments of the compiler", texts(&l.Flags)},
		{"entry", "name of the kernel in that file, where " + PerDType + " stands for the number format, too; " + entry,
			text(&l.Entry)},
		{"grid", `blocks along x, y, z: whole numbers or expressions, ["ceil(N / 256)"]`, extents(&l.Grid)},
		{"block", "threads along x, y, z: whole numbers or expressions", extents(&l.Block)},
		{"shared", "bytes of dynamic shared memory: a whole number or an expression", size(&l.Shared, 0)},
		{"args", "arguments in order: names of inputs and outputs, expressions, or literal numbers", items(&l.Args)},
		{"checks", "what the emulator looks for: all, none, or some of bounds,uninit,race,barrier,async", checks(&l.Look)},
		{"schedules", "orders of blocks and warps that are compared bit by bit; 1: none", between(&l.Schedules, 1,
			maxSchedules)},
		{"budget", "instructions of warps after which a launch is stopped; default: 2^32", budget(&l.Budget)},
		{"memory", "memory that a launch may use, such as 6GiB; default: 4GiB", memory(&l.Memory)},
	}
}

// maxSchedules is more orders than tell anything new.
const maxSchedules = 10000

func newKernel() Kernel { return Kernel{Checks: ArtifactChecks{MaxRegisters: 64}, Launch: newLaunch()} }

func kernelKeys(k *Kernel) []key {
	limits := table(append([]key{
		{"max_registers", "most registers per thread", count(&k.Checks.MaxRegisters, 0)},
		{"max_spills", "most bytes of spill stores and loads per thread", count(&k.Checks.MaxSpills, 0)},
		{"max_local_memory", "most bytes of local memory per thread", count(&k.Checks.MaxLocalMemory, 0)},
		{"required_patterns", "patterns of instructions that must occur, such as ld.global.v4 or mma.*",
			patterns(&k.Checks.RequiredPatterns)},
		{"forbidden_patterns", "patterns of instructions that must not occur", patterns(&k.Checks.ForbiddenPatterns)},
	}, limitKeys(&k.Checks)...), nil)
	keys := append([]key{
		{"name", "the kernel's name, unique in the file", text(&k.Name).required()},
		{"sass", "listing of the machine code by cuobjdump -sass or nvdisasm", text(&k.SASS)},
		{"reference", "the kernel is executed, too, and compared with this operator of the catalogue: builtin:NAME",
			text(&k.Reference)},
		{"dtypes", "number formats in which it is executed; default: those of [validation], else float32",
			dtypes(&k.DTypes)},
		{"tolerances", docTolerances, tolerances(&k.Tolerances)},
		{"invariants", docInvariants, invariants(&k.Invariants, &k.InvariantsOff)},
		{"artifact_checks", "limits on the compiled kernel", limits},
	}, launchKeys(&k.Launch, "default: the one called name, else all of them")...)
	return append(keys, limitKeys(&k.Checks)...)
}

// limitKeys may stand in [[kernels]] or in its artifact_checks.
func limitKeys(c *ArtifactChecks) []key {
	return []key{
		{"max_shared", "most bytes of static shared memory; also a key of artifact_checks", limit(&c.MaxShared)},
		{"max_instructions", "most instructions; also a key of artifact_checks", limit(&c.MaxInstructions)},
		{"max_stack", "most bytes of stack per thread; also a key of artifact_checks", limit(&c.MaxStack)},
	}
}

func policyKeys(p *Policies) []key {
	return []key{
		{"fail_on_regression", "a regression against the baseline fails the run, as --fail-on-regression does",
			flag(&p.FailOnRegression)},
		{"warn_threshold", "by how much the largest error may grow before a warning", number(&p.WarnThreshold)},
		{"regression_threshold", docThreshold, number(&p.RegressionThreshold)},
	}
}

func ciKeys(c *CI, a *aliases) []key {
	return []key{
		{"fuzz_iterations", "cases per op and dtype of a thorough run", count(&c.FuzzIterations, 1)},
		{"parallel", "cases at once; 0: one per CPU", count(&c.Parallel, 0)},
		{"parallel_jobs", "another name of parallel", limit(&a.parallel)},
		{"quick_dtypes", "another name of dtypes in [ci.quick]", dtypes(&a.quickDTypes)},
		{"thorough_timeout", "time limit of a thorough run, in seconds; default: none", duration(&c.ThoroughTimeout)},
		{"regression_threshold", docThreshold + "; beats that of [policies]", optional(&c.RegressionThreshold)},
		{"quick", "what --quick does", table([]key{
			{"fuzz_iterations", "cases per op and dtype of a quick run", count(&c.Quick.FuzzIterations, 1)},
			{"dtypes", "number formats of a quick run", dtypes(&c.Quick.DTypes)},
		}, nil)},
	}
}

// checkOp checks an op as a whole and derives its mode.
func (r *reader) checkOp(n *node, o *Op, names, executed map[string]bool) {
	r.unique(n, o.Name, names)
	r.sameName(n, o.Name, executed)
	if o.Candidate != "" && o.OpScript != "" && o.Candidate != o.OpScript {
		r.fault(Conflict, n.byKey["op_script"].keyAt, "keep the one that is to be tested",
			"ops has candidate = %q and op_script = %q", o.Candidate, o.OpScript)
	}
	derived := o.Mode == ModeUnset
	if derived {
		o.Mode = o.derivedMode()
	}
	r.checkOpKernel(n, o, derived)
}

// checkOpKernel checks the kernel of an op, and that one which is to be emulated has one.
func (r *reader) checkOpKernel(n *node, o *Op, derived bool) {
	if k := o.Kernel; k != nil && k.PTX == "" && strings.HasSuffix(o.Candidate, ".ptx") {
		k.PTX = o.Candidate
	} else if k != nil {
		r.needOne(n.byKey["kernel"], "ptx", "source", "cubin")
		r.onePerDType(n.byKey["kernel"])
	}
	switch {
	case derived && o.Kernel != nil && o.Mode != Emulate:
		r.fault(Conflict, n.byKey["kernel"].keyAt, "keep the one that is to be tested, or set execution_mode",
			"ops has candidate = %q and a kernel", o.Executable())
	case o.Mode != Emulate, o.EmulatesLaunches():
	case o.Kernel == nil:
		r.fault(MissingKey, n.keyAt, "add [ops.kernel] with ptx, grid, block and args, or a candidate file.py:function "+
			"that launches Triton kernels", "%s is to be emulated and has no kernel", n.path())
	default:
		r.needAll(n.byKey["kernel"], "grid", "block", "args")
	}
}

// derivedMode follows from what is to be executed.
func (o *Op) derivedMode() Mode {
	exe := o.Executable()
	switch {
	case strings.HasSuffix(exe, ".ptx"), exe == "" && o.Kernel != nil:
		return Emulate
	case exe == "":
		return ClientSide
	case strings.HasPrefix(exe, "worker:"), strings.HasPrefix(exe, "builtin:"), isFunction(exe):
		return Worker
	}
	return ScriptBased
}

// checkKernel checks a kernel as a whole.
func (r *reader) checkKernel(n *node, k *Kernel, names map[string]bool) {
	r.unique(n, k.Name, names)
	r.needOne(n, "source", "ptx", "cubin", "sass")
	r.onePerDType(n)
	checks := n.byKey["artifact_checks"]
	if checks == nil {
		return
	}
	for _, l := range limitKeys(&k.Checks) {
		outer, inner := n.byKey[l.name], checks.byKey[l.name]
		if outer != nil && inner != nil && outer.val != inner.val {
			r.fault(Conflict, inner.keyAt, "keep one", "%s is %v here and %v in kernels", l.name, inner.val, outer.val)
		}
	}
}

// checkExecuted checks a kernel that is executed: its cases come from the catalogue, and its results have its name.
func (r *reader) checkExecuted(n *node, k *Kernel, ops, executed map[string]bool) {
	if !k.Executed() {
		return
	}
	if !strings.HasPrefix(k.Reference, "builtin:") {
		r.bad(n.byKey["reference"], `use "builtin:NAME" of gpuemu ops; a kernel with another reference is an op: [[ops]] `+
			"with [ops.kernel]")
	}
	r.needAll(n, "args")
	r.sameName(n, k.Name, ops)
	executed[k.Name] = true
}

// sameName reports an op and a kernel that is executed with one name.
func (r *reader) sameName(n *node, name string, others map[string]bool) {
	if others[name] {
		r.fault(Duplicate, n.byKey["name"].at, "give each its own name",
			"an op and a kernel that is executed are both called %q", name)
	}
}

// checkCI joins keys with their second names.
func (r *reader) checkCI(n *node, c *CI, a *aliases) {
	quick := n.byKey["quick"]
	if a.parallel != nil {
		if n.byKey["parallel"] != nil && c.Parallel != *a.parallel {
			r.fault(Conflict, n.byKey["parallel_jobs"].keyAt, "keep parallel", "parallel is %d and parallel_jobs is %d",
				c.Parallel, *a.parallel)
		}
		c.Parallel = *a.parallel
	}
	if a.quickDTypes != nil {
		if quick != nil && quick.byKey["dtypes"] != nil && !slices.Equal(c.Quick.DTypes, a.quickDTypes) {
			r.fault(Conflict, n.byKey["quick_dtypes"].keyAt, "keep dtypes in [ci.quick]",
				"dtypes of [ci.quick] are %v and quick_dtypes are %v", c.Quick.DTypes, a.quickDTypes)
		}
		c.Quick.DTypes = a.quickDTypes
	}
}

// unique checks the name of an entry and adds it to the names seen.
func (r *reader) unique(n *node, name string, seen map[string]bool) {
	at := n.byKey["name"]
	switch {
	case seen[name]:
		r.fault(Duplicate, at.at, "give each its own name", "%s has the name %q twice", n.path(), name)
	case len(name) > opspec.MaxNameLen || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.bad(at, "use a short name without control characters")
	}
	seen[name] = true
}

// needAll reports the keys that a table lacks.
func (r *reader) needAll(n *node, keys ...string) {
	for _, k := range keys {
		if n.byKey[k] == nil {
			r.fault(MissingKey, n.keyAt, "say how the kernel is launched", "%s has no %s", n.path(), k)
		}
	}
}

// onePerDType reports files other than PTX that are to be one per number format.
func (r *reader) onePerDType(n *node) {
	for _, k := range []string{"source", "cubin", "sass"} {
		if file := n.byKey[k]; file != nil {
			if path, _ := file.val.(string); strings.Contains(path, PerDType) {
				r.bad(file, PerDType+" stands in ptx and entry alone; give the PTX of each number format")
			}
		}
	}
}

// needOne reports a table that has none of the keys.
func (r *reader) needOne(n *node, keys ...string) {
	for _, k := range keys {
		if n.byKey[k] != nil {
			return
		}
	}
	r.fault(MissingKey, n.keyAt, "add one of them", "%s has none of %s", n.path(), strings.Join(keys, ", "))
}
