// Package runner executes candidates and references on cases: functions in persistent workers, one-shot scripts
// through a fork server or plain processes, compiled kernels on the emulator, and the catalogue's own references.
//
// It neither judges outputs (package campaign does) nor chooses cases. The main types are Runner, Call and Failure.
// What goes wrong with the executed code is a *Failure with a reason; any other error is a fault of gpuemu or a
// cancelled context. Every process is the leader of a process group of its own and is gone, with all its children,
// when Run or Close returns.
package runner

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/dtype"
	"gpuemu/internal/emulation"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// Runner executes calls. Run is safe for concurrent use; Close waits for nothing and ends all processes.
type Runner interface {
	Run(ctx context.Context, call *Call) (*Reply, error)
	Close() error
}

// Call is one execution: what a candidate or a reference is given.
type Call struct {
	Op      string
	Case    string // canonical text, for messages and for scripts that want it
	Seed    uint64
	DType   dtype.DType
	Inputs  []tensor.Named // schema order, in their real layouts; not modified
	Attrs   opspec.Attrs   // attributes of the case and the op's kwargs
	Dims    []opspec.DimValue
	Outputs []Output // schema order; empty where the op has no schema of outputs
	// Reference: the reply may have any float type, float64 is welcome. A candidate must return the declared types.
	Reference bool
	// Working, where set, asks for the function in the working precision. Only functions and scripts in Python with
	// numpy can be run so; what else there is fails with the reason Unsupported.
	Working *Working
	// Zeroed: outputs and scratch memory of a kernel hold zeros before the launch, as fresh memory of a device mostly
	// does. False: they hold poison, so that what is not written is seen.
	Zeroed bool
}

// Working says how a function written in numpy is evaluated as an implementation of it would compute: nothing is wider
// than Widest, each operation rounds at random, and finite numbers that overflow in a sum or a product give NaN.
type Working struct {
	Widest dtype.DType
	Seed   uint64 // of the rounding
}

// Output is an output that a call asks for.
type Output struct {
	Name  string
	DType dtype.DType
	Shape tensor.Shape // nil: not known beforehand
}

// Reply is what came back. Its tensors belong to the caller.
type Reply struct {
	Outputs []tensor.Named // as named by the code; a single output of any name, or none, is called "output"
	Stderr  string         // tail of what was printed
	Time    time.Duration  // spent in the user's code, as far as the process reports it; else the whole call
	// Modified names the inputs that the code wrote to, where the runner can tell.
	Modified []string
	// Findings are what the emulator saw of the execution, and Dropped how many more there were.
	Findings []verdict.Finding
	Dropped  int
	// Note says what was executed in place of what was asked for, if so: a sentence.
	Note string

	image []byte // what the outputs lie in, if it can be used again
}

// images is memory of replies that were released. To get and clear new memory takes longer than to read into it.
var images sync.Pool

// imageBuffer returns memory for an image, with anything in it.
func imageBuffer(size int64) []byte {
	if b, _ := images.Get().(*[]byte); b != nil && int64(cap(*b)) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

// Release gives the memory of the outputs back, which nobody may use any more. A reply need not be released.
func (r *Reply) Release() {
	if b := r.image; b != nil {
		images.Put(&b)
	}
	*r = Reply{} // a second call, or a use that should not be, finds nothing
}

// Failure is what the executed code did instead of replying, or why it was not executed.
type Failure struct {
	Reason verdict.Reason
	Msg    string // one sentence, lower case
	Hint   string
	Stderr string // tail of what was printed
}

func (f *Failure) Error() string { return f.Msg }

// Lost reports whether a signal that gpuemu did not send ended the process, so that another try may end otherwise.
func (f *Failure) Lost() bool { return f.Reason == verdict.WorkerLost || f.Reason == verdict.Killed }

// Spec says what to execute and how.
type Spec struct {
	// Target is file.py:function, worker:COMMAND, builtin:NAME or the path of a script.
	Target string
	Python string   // interpreter for Python targets
	Dir    string   // working directory; relative paths of Target are relative to it
	Base   []string // environment as NAME=value; nil: that of the process
	Env    []string // additional NAME=value
	Raw    bool     // bf16 and fp8 arrive as unsigned integers
	Slots  int      // processes at once; at least 1
	RunDir string   // private directory for files of this run
	Limits Limits
	// Emulator, where set, executes the launches of Triton kernels that a function makes, in place of a GPU.
	Emulator Emulator

	cgroups *cgroups // nil: those that are delegated to us
}

// Emulator executes launches of compiled kernels on the CPU.
type Emulator interface {
	// Launch executes the launch of a header (docs/formats/http.md) on the tensors of a safetensors image, and returns
	// what was found and the tensors that the kernel wrote. An error is a launch that cannot be, not one that goes wrong.
	Launch(ctx context.Context, header, image []byte) (*emulation.Document, []tensor.Named, error)
}

// environment is what processes are started with, before Env.
func (s *Spec) environment() []string {
	if s.Base == nil {
		return os.Environ()
	}
	return slices.Clone(s.Base)
}

// path is where programs are looked for that are named without a directory.
func (s *Spec) path() string { return cudatool.Lookup(s.environment(), "PATH") }

// Limits of one call. Zero values mean the defaults.
type Limits struct {
	Timeout time.Duration // from the first byte of the request to the last of the reply
	// Memory is how many bytes a slot has: all its processes together where cgroup v2 is delegated to us, else each
	// process for what is its own (RLIMIT_DATA). 0: no limit.
	Memory int64
	// Watch: where there are no cgroups, Memory limits what all processes of a slot use together, and not what each
	// reserves. It is looked at now and then, so that they can have more for some milliseconds.
	Watch  bool
	Output int64 // bytes of a reply
	Stderr int   // bytes kept of what was printed

	reserved bool // what a process reserves counts, used or not
}

// ofData is the limit that each process has where there are no cgroups; 0: none.
func (l *Limits) ofData() int64 {
	if l.Watch {
		return 0
	}
	return l.Memory
}

// Defaults of Limits.
const (
	// DefaultTimeout is the documented default of the key timeout.
	DefaultTimeout = 30 * time.Second
	// DefaultOutput is far above the largest tensor generated by default (2^20 elements) in any number format and text.
	DefaultOutput = 1 << 30
	// DefaultStderr keeps a long Python traceback and what was printed before it.
	DefaultStderr = 16 << 10
)
