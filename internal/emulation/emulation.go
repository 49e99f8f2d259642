// Package emulation executes launches of compiled kernels on the CPU and says what came of them.
//
// It stands between a launch (launchfile.Case) and the machine (ptxvm): it finds the kernel, passes arguments and
// options on, and makes a Document of findings, counters and comparisons. It reads no files and prints nothing. The
// main functions are Load and Run.
package emulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
)

// MaxSchedules is more orders than tell anything new.
const MaxSchedules = 10000

// Options are how a launch is executed.
type Options struct {
	Checks    ptxvm.Checks     // 0: all
	Schedules int              // orders of blocks and warps that are compared; 0 and 1: none
	Budget    uint64           // instructions of warps; 0: the usual limit
	Memory    int64            // bytes; 0: what the launch says, else the usual limit
	Pool      *Pool            // of memory for all launches of the process; nil: no limit
	Timeout   time.Duration    // from the moment when there is memory for the launch; 0: none
	Workers   int              // blocks that run at the same time; 0: one per processor
	Counters  bool             // count what happens
	Trace     func(ptxvm.Step) // told of every instruction; nil: nobody
}

// ErrTimeout is wrapped by the error of a launch that did not end within its Options.Timeout.
var ErrTimeout = errors.New("out of time")

// Load makes a kernel of a module executable. The name of a C++ kernel may be without its mangling where only one
// fits. Arch, if it is not "", is the architecture whose tensor cores are followed instead of the module's own.
func Load(file *ptx.File, entry, arch string) (*ptxvm.Program, error) {
	return LoadWith(file, entry, arch, ptxvm.Numerics{}, 0)
}

// LoadWith is Load with a choice among the results that PTX allows, and the bytes that launches may use, 0 for the
// usual limit.
func LoadWith(file *ptx.File, entry, arch string, n ptxvm.Numerics, memory int64) (*ptxvm.Program, error) {
	if arch != "" && len(file.Targets) > 0 {
		file.Targets[0] = arch // what the emulator takes its tensor cores from
	}
	return ptxvm.LoadWithin(file, KernelName(file, entry), n, memory)
}

// KernelName is the symbol of a kernel: C++ names may be written without their mangling where only one kernel fits.
func KernelName(file *ptx.File, entry string) string {
	var fits []string
	for _, k := range file.Kernels() {
		switch {
		case k.Name == entry:
			return entry
		case ptx.SourceName(k.Name) == entry:
			fits = append(fits, k.Name)
		}
	}
	if len(fits) == 1 {
		return fits[0]
	}
	return entry
}

// Run executes a launch. The data of its arguments is changed in place. An error that IsRefusal knows means that the
// kernel is not executed here or not to its end, any other one that the launch does not fit the kernel.
func Run(ctx context.Context, prog *ptxvm.Program, l *launchfile.Case, o Options) (*Document, error) {
	vm := &ptxvm.Launch{Grid: dim(l.Grid), Block: dim(l.Block), DynamicShared: l.DynamicShared, Checks: o.Checks,
		Workers: o.Workers, MaxSteps: o.Budget, Schedules: o.Schedules, Seed: 1, Context: ctx,
		Counters: o.Counters, Trace: o.Trace}
	for i := range l.Args {
		a := &l.Args[i]
		var valid [][2]int
		for _, part := range a.Valid {
			valid = append(valid, [2]int{part[0] * a.DType.Size(), part[1] * a.DType.Size()})
		}
		vm.Args = append(vm.Args, ptxvm.Arg{Name: a.Name, Buffer: a.Data, Value: a.Value, Role: ptxvm.Role(a.Role),
			Uninitialised: a.Uninitialised(), Element: a.DType.Size(), Of: a.Of, Offset: a.Offset, Residue: a.Residue,
			Valid: valid})
	}
	var err error
	if vm.MaxMemory, err = o.Pool.limit(cmp.Or(o.Memory, l.Memory)); err != nil {
		return nil, err
	}
	need := prog.Bound(vm)
	if err := o.Pool.acquire(ctx, need); err != nil {
		return nil, err
	}
	defer o.Pool.release(need)
	if o.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, o.Timeout, ErrTimeout)
		defer cancel()
		vm.Context = limited
	}
	start := time.Now()
	result, err := prog.Run(vm)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = fmt.Errorf("%s did not come to its end: %w", prog.Kernel.Name, ctx.Err())
		case errors.Is(err, ErrTimeout):
			err = fmt.Errorf("%s did not come to its end: %w", prog.Kernel.Name, err)
		}
		return nil, err
	}
	d := &Document{
		Kernel: prog.Kernel.Name, PTX: l.PTX, Line: prog.File.Position(prog.Kernel.Pos).Line,
		Target: strings.Join(prog.File.Targets, ","), Grid: l.Grid, Block: l.Block, DynamicShared: l.DynamicShared,
		Checks: checkNames(o.Checks), Schedules: max(o.Schedules, 1), Seconds: time.Since(start).Seconds(),
		SFU: prog.Numerics.Approx.String(), Contract: prog.Numerics.Contract,
		Instructions: result.Steps, Printed: string(result.Printed), Dropped: result.Dropped,
		Written: result.Written,
	}
	if result.Counters != nil {
		d.Counters = newCounters(result.Counters)
	}
	for i := range result.Findings {
		d.add(&result.Findings[i])
	}
	return d, nil
}

// IsRefusal reports whether an error of Load or Run means that the kernel is not executed here, or not to its end.
func IsRefusal(err error) bool {
	switch diag.CodeOf(err) {
	case "", ptxvm.NoEntry, ptxvm.BadLaunch:
		return false
	}
	return true
}

// Refused is the document of a launch that was not executed, or not to its end.
func Refused(l *launchfile.Case, err error) *Document {
	d := &Document{Kernel: l.Entry, PTX: l.PTX, Grid: l.Grid, Block: l.Block, DynamicShared: l.DynamicShared,
		Error: &Refusal{Code: string(diag.CodeOf(err)), Message: err.Error(), Hint: diag.HintOf(err)}}
	d.Conclude()
	return d
}

// checkNames lists the checks that are made.
func checkNames(c ptxvm.Checks) (names []string) {
	for _, x := range []struct {
		check ptxvm.Checks
		name  string
	}{{ptxvm.CheckBounds, "bounds"}, {ptxvm.CheckUninit, "uninit"}, {ptxvm.CheckRace, "race"},
		{ptxvm.CheckBarrier, "barrier"}, {ptxvm.CheckAsync, "async"}} {
		if c == 0 || c&x.check != 0 {
			names = append(names, x.name)
		}
	}
	return names
}

func dim(size [3]int) ptxvm.Dim { return ptxvm.Dim{X: size[0], Y: size[1], Z: size[2]} }
