package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/emulation"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
)

// This file implements the command emulate: one launch of a compiled kernel on the CPU.

// emulateFlags are the flags of the command.
type emulateFlags struct {
	ptx, entry, grid, block string
	shared                  int
	args                    []string
	launch                  string // --case

	check     string
	schedules int
	budget    uint64
	memory    string
	arch, sfu string
	contract  bool
	trace     bool
	counters  bool
	dir       string
}

func emulateCommand(term *terminal, env Env) *cobra.Command {
	f := &emulateFlags{}
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "emulate FILE.ptx --grid X,Y,Z --block X,Y,Z --arg ARG... | emulate --case FILE.json",
		Short: "Run a compiled kernel on the CPU and see what it does wrong",
		Long: "Executes one launch of a PTX kernel, reports what it does that it should not, and compares what it\n" +
			"computed with what was expected. No GPU and no CUDA are needed.\n\n" +
			"Arguments stand in the order of the kernel's parameters, each as --arg [NAME=]WHAT:\n" +
			"  i32:1024                   a scalar: dtype and value\n" +
			"  in:FILE                    a tensor of a .safetensors file (FILE#TENSOR, NAME or the only one) or .npy file\n" +
			"  in:f32[4,16]:normal:7      a tensor made of a seed: dtype, shape, values and, if not 1, the seed\n" +
			"  out:f32[4,16]              memory for an output, with nothing in it\n" +
			"in is what the kernel reads, out what it writes, inout both. Values are zeros or a distribution:\n" +
			"  " + wrapped(distributionNames()) + ".\n\n" +
			"With -o the outputs go to DIR/outputs.safetensors and, for a launch file, as raw bytes to DIR/NAME.bin, too.\n\n" +
			"Exit codes: 1 if there is a finding or an output is not as expected; 3 if the kernel has an instruction that\n" +
			"is not executed here, or does not end within its budget; 2 for usage; else 0.",
		Example: "  gpuemu emulate add.ptx --grid 4 --block 256 --arg x=in:f32[1000]:normal --arg y=out:f32[1000] \\\n" +
			"    --arg n=i32:1000 -o results\n  gpuemu emulate --case softmax/case.json --format json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return diag.Errorf(Usage, "give one PTX file", "unexpected argument %q", args[1])
			}
			if len(args) == 1 {
				f.ptx = args[0]
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			e := &emulator{term: term, env: env, flags: f, asJSON: format.value == "json"}
			return e.run(cmd)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.entry, "entry", "", "`NAME` of the kernel (default: the only one)")
	fl.StringVar(&f.grid, "grid", "", "blocks of the grid, as `X,Y,Z`")
	fl.StringVar(&f.block, "block", "", "threads of a block, as `X,Y,Z`")
	fl.IntVar(&f.shared, "shared", 0, "`BYTES` of dynamic shared memory")
	fl.StringArrayVar(&f.args, "arg", nil, "argument `ARG` of the kernel; repeat it for each parameter")
	fl.StringVar(&f.launch, "case", "", "launch `FILE` (JSON), instead of all of the above")
	fl.StringVar(&f.check, "check", "all", "`LIST` of checks: all, none, or of bounds,uninit,race,barrier,async")
	fl.IntVar(&f.schedules, "schedules", 1, "run in `N` orders of blocks and warps, and compare the bits of the results")
	fl.Uint64Var(&f.budget, "budget", 0, "stop after `N` instructions of warps (default 2^32)")
	fl.StringVar(&f.memory, "memory", "", "stop when the launch needs more than `SIZE` of memory (default 4GiB)")
	fl.StringVar(&f.arch, "arch", "", "architecture `sm_XX` whose tensor cores are followed (default: the file's .target)")
	fl.StringVar(&f.sfu, "sfu", "", "`MODE` of approximate instructions: worst+ or worst-, the ends of their bounds")
	fl.BoolVar(&f.contract, "contract", false, "fuse products with additions where PTX leaves it open")
	fl.BoolVar(&f.trace, "trace", false, "tell of every instruction of every warp on standard error")
	fl.BoolVar(&f.counters, "counters", false, "count instructions, divergence, barriers, sectors and bank conflicts")
	fl.StringVarP(&f.dir, "output", "o", "", "directory `DIR` for the outputs; it is created")
	format.register(cmd, "format", "output format")
	return cmd
}

// emulator is one run of the command.
type emulator struct {
	term   *terminal
	env    Env
	flags  *emulateFlags
	asJSON bool

	launch *launchfile.Case
	file   *ptx.File
	checks ptxvm.Checks
	memory int64
	doc    *emulation.Document
}

func (e *emulator) run(cmd *cobra.Command) error {
	if err := e.options(); err != nil {
		return err
	}
	err := e.read(cmd)
	if err == nil && e.flags.dir != "" {
		err = e.checkOutputs()
	}
	if err == nil {
		err = e.execute()
	}
	if err != nil {
		return e.refuse(err)
	}
	for i := range e.launch.Expected {
		x := &e.launch.Expected[i]
		e.doc.Compare(x, e.launch.Arg(x.Name))
	}
	if e.flags.dir != "" {
		if err := e.writeOutputs(); err != nil {
			return err
		}
	}
	return e.print()
}

// refuse says in JSON, too, that a kernel could not be executed as a whole.
func (e *emulator) refuse(err error) error {
	if !e.asJSON || exitCode(err) != command.ExitNotRun {
		return err
	}
	if broken := e.term.printJSON(emulation.Refused(e.launch, err)); broken != nil {
		return broken
	}
	return err
}

// print prints the result; its exit code follows from it.
func (e *emulator) print() error {
	e.doc.Conclude()
	if e.asJSON {
		if err := e.term.printJSON(e.doc); err != nil {
			return err
		}
	} else {
		printEmulation(e.term, e.doc)
	}
	if e.doc.Status != "passed" {
		return &command.Status{Code: command.ExitFailed}
	}
	return nil
}

// options refuses what is not there. What is asked for and not done would be a green light for nothing.
func (e *emulator) options() error {
	f := e.flags
	var err error
	if e.checks, err = ptxvm.ParseChecks(f.check); err != nil {
		return inFlag("check", err)
	}
	if f.memory != "" {
		if e.memory, err = launchfile.ParseMemory(f.memory); err != nil {
			return inFlag("memory", err)
		}
	}
	switch {
	case f.schedules < 1 || f.schedules > emulation.MaxSchedules:
		return diag.Errorf(Usage, fmt.Sprintf("give 1 to %d", emulation.MaxSchedules), "--schedules is %d", f.schedules)
	case f.sfu != "" && ptxvm.Edges[f.sfu] == ptxvm.Nearest:
		return diag.Errorf(Usage, "use worst+ or worst-", "--sfu is %q", f.sfu)
	case f.arch != "" && !cudatool.IsArch(f.arch):
		return diag.Errorf(Usage, "write sm_80, sm_90a and the like", "--arch is %q", f.arch)
	}
	return nil
}

// read reads the launch, from a file or from the flags, and the module.
func (e *emulator) read(cmd *cobra.Command) error {
	var err error
	if e.flags.launch != "" {
		for _, name := range []string{"entry", "grid", "block", "shared", "arg"} {
			if cmd.Flags().Changed(name) {
				return diag.Errorf(Usage, "change the launch file", "--case and --%s exclude each other", name)
			}
		}
		if e.flags.ptx != "" {
			return diag.Errorf(Usage, "the launch file names its kernel as \"ptx\"", "--case and %q exclude each other",
				e.flags.ptx)
		}
		e.launch, err = launchfile.Read(e.flags.launch)
	} else {
		e.launch, err = e.flags.read()
	}
	if err != nil {
		return err
	}
	e.file, err = ptx.ReadFile(e.launch.PTX)
	var bad *fs.PathError
	switch {
	case errors.As(err, &bad):
		return readError(err)
	case err != nil:
		return command.NotRun(err)
	}
	e.launch.Entry = emulation.KernelName(e.file, e.launch.Entry)
	return nil
}

// execute loads and runs the kernel.
func (e *emulator) execute() error {
	ctx, stop := e.env.interruptible()
	defer stop()
	o := emulation.Options{Checks: e.checks, Schedules: e.flags.schedules, Budget: e.flags.budget,
		Counters: e.flags.counters, Memory: e.memory, Pool: emulation.NewPool(0)}
	if e.flags.trace {
		o.Trace = e.trace
	}
	prog, err := emulation.LoadWith(e.file, e.launch.Entry, e.flags.arch,
		ptxvm.Numerics{Approx: ptxvm.Edges[e.flags.sfu], Contract: e.flags.contract},
		cmp.Or(e.memory, e.launch.Memory))
	if err == nil {
		e.doc, err = emulation.Run(ctx, prog, e.launch, o)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return command.NotRun(diag.Errorf(Interrupted, "", "interrupted before %s ended", e.launch.Entry))
	case emulation.IsRefusal(err):
		return command.NotRun(err)
	}
	return err
}

// trace tells of an instruction on standard error: the result stays alone on standard output.
func (e *emulator) trace(s ptxvm.Step) {
	e.term.note("block %d,%d,%d warp %d lanes %08x %s: %s", s.Block.X, s.Block.Y, s.Block.Z, s.Warp, s.Active,
		placeText(e.launch.PTX, s.PTX.Line, emulation.Places(s.Source)), s.Instr)
}

// sizeText is a grid or a block, as the flags take it.
func sizeText(size [3]int) string { return fmt.Sprintf("%d,%d,%d", size[0], size[1], size[2]) }
