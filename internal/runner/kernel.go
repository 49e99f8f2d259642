package runner

// This file implements kernels that the emulator executes: a launch per call, and what was found in it.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/emulation"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// KernelSpec is a compiled kernel as a candidate.
type KernelSpec struct {
	Op     string
	Launch *Launch
	Dir    string // that paths are relative to
	// DTypes are those that will be asked for: where there is one kernel per number format, each must be there.
	DTypes  []dtype.DType
	Workers int             // blocks at once; 0: one per processor
	Pool    *emulation.Pool // of memory for launches; nil: no limit
	Timeout time.Duration
	Memory  int64                                 // bytes of a launch that names none itself; 0: the usual limit
	Tools   func(context.Context) *cudatool.Tools // nil: those that are installed
}

// kernelRunner launches one kernel. A source is compiled when it is first needed, by whoever needs it.
type kernelRunner struct {
	spec KernelSpec

	mu   sync.Mutex
	prog *ptxvm.Program // guarded by mu, as the following; nil before the first call of a source
	note string         // on how it was compiled
	// refusal, where set, is why the kernel cannot be executed at all.
	refusal *Failure
}

// NewKernel returns the runner of a kernel. A file that is missing, a kernel that is not in it and arguments that do
// not fit are errors; a kernel that is not executed here, or not compiled, fails every call with the reason.
func NewKernel(spec KernelSpec) (Runner, error) {
	if spec.Launch.IsPerDType() {
		return newPerDType(spec)
	}
	return newKernel(spec)
}

func newKernel(spec KernelSpec) (*kernelRunner, error) {
	r := &kernelRunner{spec: spec}
	l := spec.Launch
	if l.PTX == "" && l.Source == "" {
		r.refusal = &Failure{Reason: verdict.Unsupported, Msg: l.Cubin + ": machine code is not executed",
			Hint: "give the PTX, or the source"}
		return r, nil
	}
	path := r.abs(l.PTX)
	if l.PTX == "" {
		path = r.abs(l.Source)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		hint := "correct the path; it is relative to gpuemu.toml"
		if strings.ContainsAny(l.PTX, "{}") {
			hint += "; {dtype} is all that is replaced in it"
		}
		return nil, diag.Errorf(TargetMissing, hint, "there is no file %s", path)
	}
	if l.PTX == "" || strings.HasSuffix(l.PTX, ".cu") {
		return r, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, diag.Errorf(TargetMissing, "", "kernel: %w", err)
	}
	return r, r.load(l.PTX, string(text))
}

func (r *kernelRunner) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.spec.Dir, path)
}

// load makes the kernel of a module executable, or notes why it is not. The error is one of the configuration.
func (r *kernelRunner) load(name, text string) error {
	l := r.spec.Launch
	file, err := ptx.Parse(name, text)
	if err != nil {
		r.refusal = refusal(err)
		return nil
	}
	entry := l.Entry
	if entry == "" && len(file.Kernels()) > 1 {
		entry = r.spec.Op // the kernel called as the op, else the only one
	}
	prog, err := emulation.Load(file, entry, "")
	switch {
	case err == nil:
	case emulation.IsRefusal(err):
		r.refusal = refusal(err)
		return nil
	default:
		return err
	}
	if len(prog.Params) != len(l.args) {
		var names []string
		for _, p := range prog.Params {
			names = append(names, p.Name)
		}
		return badLaunch(l.Grid[0].Pos, "parameters: "+strings.Join(names, ", "), "args has %d arguments, %s takes %d",
			len(l.args), prog.Kernel.Name, len(prog.Params))
	}
	for i := range l.args {
		if p := &prog.Params[i]; (l.args[i].Name != "" || l.args[i].Memory != "") && p.Size != 8 {
			return badLaunch(l.args[i].Pos, "", "%s is memory, and parameter %s has %d bytes, which is no address",
				l.args[i].what, p.Name, p.Size)
		}
	}
	r.prog = prog
	return nil
}

// refusal is a failure of something that is not executed here.
func refusal(err error) *Failure {
	return &Failure{Reason: verdict.Unsupported, Msg: err.Error(), Hint: diag.HintOf(err)}
}

// unsupported is the failure of one case that cannot be launched.
func unsupported(err error) error { return refusal(err) }

// program is the kernel, which is compiled now where it has to be. A source that needs more time than a caller has is
// compiled for the next one.
func (r *kernelRunner) program(ctx context.Context) (*ptxvm.Program, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.refusal != nil:
		return nil, r.refusal
	case r.prog != nil:
		return r.prog, nil
	}
	l := r.spec.Launch
	source := l.Source
	if source == "" {
		source = l.PTX
	}
	find := r.spec.Tools
	if find == nil {
		find = cudatool.Find
	}
	out, err := find(ctx).Compile(ctx,
		cudatool.Request{Source: r.abs(source), Arch: l.Arch, Flags: l.Flags, TextOnly: true})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		r.refusal = refusal(relative(err, source))
		if r.refusal.Reason = verdict.NotStarted; diag.CodeOf(err) == cudatool.Refused {
			r.refusal.Reason = verdict.NotCompiled
		}
		return nil, r.refusal
	}
	r.note = out.Replaced
	if err := r.load(verdict.CompiledFrom+source, string(out.PTX)); err != nil {
		r.refusal = refusal(err)
	}
	if r.refusal != nil {
		return nil, r.refusal
	}
	return r.prog, nil
}

// noted is what is to be said of the program.
func (r *kernelRunner) noted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.note
}

// relative gives an error the name of the source as the configuration has it.
func relative(err error, source string) error {
	var e *diag.Error
	if errors.As(err, &e) && e.Pos.File != "" {
		e.Pos.File = source
	}
	return err
}

// Close does nothing: there are no processes.
func (r *kernelRunner) Close() error { return nil }

// Run launches the kernel on copies of the inputs.
func (r *kernelRunner) Run(ctx context.Context, call *Call) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	prog, err := r.program(ctx)
	if err != nil {
		return nil, err
	}
	l, err := r.spec.Launch.of(call, prog)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	reply := &Reply{Modified: []string{}, Note: r.noted()}
	if l.empty() { // as wrappers do: CUDA refuses such a grid
		r.unlaunched(l, reply)
	} else if err := r.launch(ctx, prog, l, reply); err != nil {
		return nil, err
	}
	reply.Time = time.Since(begin)
	for i := range l.Args {
		a := &l.Args[i]
		switch {
		case a.Role == launchfile.Out:
			reply.Outputs = append(reply.Outputs, tensor.Named{Name: a.Name, Tensor: a.Tensor()})
		case a.Role == launchfile.In && string(a.Data) != string(l.inputs[a.Name].Data):
			reply.Modified = append(reply.Modified, a.Name)
		}
	}
	return reply, ctx.Err()
}

// launch executes the kernel.
func (r *kernelRunner) launch(ctx context.Context, prog *ptxvm.Program, l *launch, reply *Reply) error {
	c := r.spec.Launch
	doc, err := emulation.Run(ctx, prog, &l.Case, emulation.Options{Checks: c.Look, Schedules: c.Schedules,
		Budget: c.Budget, Memory: cmp.Or(c.Memory, r.spec.Memory), Pool: r.spec.Pool, Workers: r.spec.Workers,
		Timeout: r.spec.Timeout})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, emulation.ErrTimeout):
		return &Failure{Reason: verdict.TimedOut, Msg: fmt.Sprintf("the emulator stopped %s after %s", prog.Kernel.Name,
			r.spec.Timeout), Hint: "an endless loop? else raise timeout of the op, or use smaller shapes"}
	case diag.CodeOf(err) == ptxvm.Budget:
		return &Failure{Reason: verdict.OverBudget, Msg: err.Error(),
			Hint: "an endless loop? else set budget, or use smaller shapes"}
	default: // it does not fit the kernel, or the machine: nothing is known of what it computes
		return refusal(err)
	}
	reply.Stderr = doc.Printed[max(0, len(doc.Printed)-DefaultStderr):]
	reply.Dropped = doc.Dropped
	for i := range doc.Findings {
		if len(reply.Findings) == maxCaseFindings {
			reply.Dropped += len(doc.Findings) - i
			break
		}
		f := findingOf(prog.File.Name, &doc.Findings[i])
		f.Sentence += l.otherFormat(&doc.Findings[i])
		reply.Findings = append(reply.Findings, f)
	}
	return nil
}

// maxCaseFindings is how many findings of a case are kept: more of them say nothing that the first ones do not.
const maxCaseFindings = 10

// unlaunched reports outputs that a grid of no blocks leaves as they are.
func (r *kernelRunner) unlaunched(l *launch, reply *Reply) {
	for i := range l.Args {
		a := &l.Args[i]
		if a.Role == launchfile.Out && len(a.Data) > 0 && r.spec.Launch.Look&ptxvm.CheckUninit != 0 {
			reply.Findings = append(reply.Findings, verdict.Finding{Kind: string(ptxvm.Unwritten), Name: a.Name,
				Sentence: fmt.Sprintf("grid %d,%d,%d has no blocks: nothing was launched, and %s has %d elements", l.Grid[0],
					l.Grid[1], l.Grid[2], a.Name, a.Shape.Elems())})
		}
	}
}

// otherFormat is what to add to an access out of bounds whose elements are wider than those of the tensor: a kernel
// that is written for another number format than the case has reaches twice as far as the tensor. "": nothing.
func (c *launch) otherFormat(f *emulation.Finding) string {
	for i := range c.Args {
		a := &c.Args[i]
		if a.Name == f.Buffer && a.DType.IsFloat() && f.Element > a.DType.Size() {
			return fmt.Sprintf("; the kernel accesses %d bytes where an element of %s (%s) has %d: dtypes should name the "+
				"number format that it is written for", f.Element, a.Name, a.DType, a.DType.Size())
		}
	}
	return ""
}

// findingOf is a finding of the emulator in the form of results.
func findingOf(file string, f *emulation.Finding) verdict.Finding {
	at := fmt.Sprintf("%s:%d", file, f.PTXLine)
	if f.Line > 0 {
		at += fmt.Sprintf(" (%s:%d)", f.Source, f.Line)
	}
	if f.Instruction != "" {
		at += fmt.Sprintf(": block %s, thread %s", triple(f.Block), triple(f.Thread))
	}
	sentence := at + ": " + f.Message
	if f.Count > 1 {
		sentence += fmt.Sprintf(" (%d times)", f.Count)
	}
	return verdict.Finding{Kind: f.Class, Sentence: sentence, Site: &verdict.Site{Source: f.Source, Line: f.Line,
		PTX: file, PTXLine: f.PTXLine, Block: f.Block, Thread: f.Thread, Instruction: f.Instruction, Count: f.Count}}
}

func triple(n [3]int) string { return fmt.Sprintf("%d,%d,%d", n[0], n[1], n[2]) }
