package challenge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/receipt"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the kernel that a challenge names, run in the emulator on the same inputs.

const (
	// emulateBudget is how many instructions of warps a case may have: a hostile kernel runs for ever.
	emulateBudget = 1 << 28
	// emulateTimeout is how long a case may take.
	emulateTimeout = 60 * time.Second
	// maxExprs and maxExprText bound the expressions of a launch; parameters of kernels are a few dozen.
	maxExprs, maxExprText = 256, 1000
)

// emulated is a kernel ready to run.
type emulated struct {
	runner.Runner
	name string
}

// load makes the kernel of the challenge ready, where there is one and the caller gives its text.
func (r *rechecker) load() error {
	k := r.c.Kernel
	if k == nil || r.opt.PTX == nil {
		return nil
	}
	text, err := r.opt.PTX(k.PTX)
	switch {
	case errors.Is(err, ErrNotHere):
		r.fault(Unchecked, -1, "verify where it was built, or look at outputs alone", "kernel %q: %s", k.PTX, message(err))
		return nil
	case err != nil:
		r.fault(KernelMissing, -1, diag.HintOf(err), "kernel %q: %s", k.PTX, message(err))
		return errStop
	}
	launch, err := r.launch(k)
	if err != nil {
		r.fault(Malformed, -1, diag.HintOf(err), "kernel %q: %s", k.PTX, message(err))
		return errStop
	}
	// The runner reads files; where the text came from is the caller's business.
	dir, err := os.MkdirTemp("", "gpu-proof-kernel-")
	if err != nil {
		r.fault(Unchecked, -1, "", "kernel %q: %s", k.PTX, message(err))
		return nil
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, kernelFile), text, 0o600); err != nil {
		r.fault(Unchecked, -1, "", "kernel %q: %s", k.PTX, message(err))
		return nil
	}
	run, err := runner.NewKernel(runner.KernelSpec{Op: r.c.Op, Launch: launch, Dir: dir, Timeout: emulateTimeout})
	if err != nil {
		r.fault(Malformed, -1, diag.HintOf(err), "kernel %q: %s", k.PTX, message(err))
		return errStop
	}
	r.kernel = &emulated{run, k.PTX}
	return nil
}

// kernelFile is the name of the kernel for the runner. Its messages have it, and not a path that a receipt chose.
const kernelFile = "kernel.ptx"

// launch compiles the expressions of a kernel.
func (r *rechecker) launch(k *receipt.ChallengeKernel) (*runner.Launch, error) {
	l := config.Launch{PTX: kernelFile, Entry: k.Entry, Look: ptxvm.AllChecks, Schedules: 1, Budget: emulateBudget}
	if n := len(k.Grid) + len(k.Block) + len(k.Args); n > maxExprs {
		return nil, diag.Errorf(BadChallenge, "", "%d expressions, want at most %d", n, maxExprs)
	}
	if len(k.Grid) < 1 || len(k.Grid) > 3 || len(k.Block) < 1 || len(k.Block) > 3 {
		return nil, diag.Errorf(BadChallenge, "", "grid has %d and block %d sizes, want one to three", len(k.Grid),
			len(k.Block))
	}
	for _, list := range []struct {
		what string
		from []string
		to   *[]config.Expr
	}{{"grid", k.Grid, &l.Grid}, {"block", k.Block, &l.Block}, {"args", k.Args, &l.Args}} {
		for i, text := range list.from {
			if text == "" || len(text) > maxExprText {
				return nil, diag.Errorf(BadChallenge, "", "%s[%d] has %d characters, want 1 to %d", list.what, i, len(text),
					maxExprText)
			}
			*list.to = append(*list.to, config.Expr{Text: text})
		}
	}
	l.Shared.Text = k.Shared
	return runner.NewLaunch(&l, r.plan.op.Schema, nil)
}

// emulate runs the kernel on one case and judges it. The error is that of ctx.
func (r *rechecker) emulate(
	ctx context.Context, i int, c opspec.Case, inputs map[string]*tensor.Tensor, want []declared,
	wants map[string]*compare.Want,
) (verdict.Verdict, error) {
	call := &runner.Call{Op: r.c.Op, Case: c.String(), Seed: c.Seed, DType: c.DType, Dims: c.Dims,
		Inputs: named(c, inputs), Attrs: attrsOf(r.plan.op, c)}
	for _, w := range want {
		call.Outputs = append(call.Outputs, runner.Output{Name: w.name, DType: w.dtype, Shape: w.shape})
	}
	reply, err := r.kernel.Run(ctx, call)
	var f *runner.Failure
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return verdict.NotRun, ctx.Err()
	default:
		hint := diag.HintOf(err)
		if errors.As(err, &f) {
			hint = f.Hint
		}
		r.fault(Unchecked, i, hint, "kernel %q is not run on this case and those behind it: %s", r.kernel.name, message(err))
		r.kernel = nil // the next case would say the same, or take as long
		return verdict.NotRun, nil
	}
	if len(reply.Findings) > 0 {
		finding := reply.Findings[0]
		r.fault(KernelWrong, i, "", "kernel %q: %s: %s%s", r.kernel.name, finding.Kind, finding.Sentence,
			more(len(reply.Findings)-1+reply.Dropped))
		return verdict.Fail, nil
	}
	got := make([]tensor.Named, len(want))
	for k, w := range want {
		for _, o := range reply.Outputs {
			if o.Name == w.name {
				got[k] = o
			}
		}
	}
	v := r.judge(KernelWrong, i, fmt.Sprintf("kernel %q: ", r.kernel.name), want, wants, got)
	if v == verdict.Pass {
		r.out.Emulated++
	}
	return v, nil
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}
