package campaign

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements one case, from its inputs to its result.

// execute runs one case. The error is that of a cancelled context; everything else is in the result.
func (x *executor) execute(ctx context.Context, it item) (*verdict.Result, error) {
	res := &verdict.Result{Index: it.index, Quick: it.quick, DType: it.dtype, Case: it.label}
	it.subject.stamp(res)
	start := time.Now()
	defer func() { res.Duration, res.Time = time.Since(start), x.engine.Now() }()
	if it.label == "" && it.err == nil {
		res.Case, res.Seed = it.cas.String(), verdict.Seed(it.cas.Seed)
	}
	switch b := it.subject.blocked; {
	case it.err != nil:
		res.Verdict, res.Reason = verdict.NotRun, verdict.Unsupported
		res.Case = fmt.Sprintf("%s case %d", it.subject.name, it.index)
		res.Message = "no case could be made: " + it.err.Error()
		return res, nil
	case b != nil:
		res.Verdict, res.Reason, res.Message, res.Hint = verdict.NotRun, b.reason, b.msg, b.hint
		return res, nil
	}
	inputs, err := made(it)
	if err != nil {
		internalFault(res, err)
		return res, nil
	}
	err = x.attempt(ctx, it.subject, it.cas, inputs, res)
	return res, err
}

// made makes the inputs of a case. A panic there ends the case, not the process.
func made(it item) (inputs map[string]*tensor.Tensor, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	return gen.Inputs(it.subject.schema, it.cas)
}

// attempt executes reference and candidate on inputs and judges. A panic is our own fault and no verdict.
func (x *executor) attempt(
	ctx context.Context, s *subject, c opspec.Case, inputs map[string]*tensor.Tensor, res *verdict.Result,
) (err error) {
	defer func() {
		if p := recover(); p != nil {
			internalFault(res, fmt.Errorf("%v\n%s", p, debug.Stack()))
			err = nil
		}
	}()
	wants, took, failure, err := x.want(ctx, s, c, inputs)
	res.ReferenceTime = took
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		internalFault(res, err)
		return nil
	case failure != nil:
		res.Verdict, res.Reason, res.Message, res.Hint, res.Stderr =
			verdict.NotRun, failure.Reason, failure.Msg, failure.Hint, failure.Stderr
		return nil
	}
	reply, err := invoke(ctx, x.candidate(s), s.call(c, inputs, false))
	seen := observed{inputs: inputs, confirm: func(alternative string) evidence {
		return x.confirm(ctx, s, c.DType, alternative)
	}}
	if err == nil {
		seen.modified, seen.findings, seen.dropped = reply.Modified, reply.Findings, reply.Dropped
		if s.asksTwice() {
			var second *runner.Reply
			if second, err = invoke(ctx, x.candidate(s), s.call(c, inputs, false)); err == nil {
				seen.second = second.Outputs
			}
		}
		if err == nil {
			seen.batches, err = x.runBatches(ctx, s, c, inputs)
		}
	}
	var f *runner.Failure
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f):
		res.Verdict, res.Reason, res.Message, res.Hint, res.Stderr = blame(f.Reason), f.Reason, f.Msg, f.Hint, f.Stderr
		return nil
	default:
		internalFault(res, err)
		return nil
	}
	res.CandidateTime, res.Stderr, res.Note = reply.Time, reply.Stderr, reply.Note
	if err := x.decide(ctx, s, trialOf{c, inputs, reply.Outputs, wants, seen}, res); err != nil {
		return err
	}
	if !res.Verdict.Failed() {
		res.Stderr = "" // what a passing candidate prints is nobody's business
	}
	release(wants)
	reply.Release()
	return nil
}

// release gives the memory of expected values back that the result has been made of.
func release(wants []expected) {
	for i := range wants {
		if wants[i].release != nil {
			wants[i].release()
		}
	}
}

// asksTwice reports whether the op's invariants need a second execution.
func (s *subject) asksTwice() bool { return slices.Contains(s.invariants, "deterministic") }

// maxLost is how often a case whose process was ended by a signal of unknown origin is tried again. A run that is
// disturbed once should end like one that is not; a process that gets such a signal every time sends it itself.
const maxLost = 4

// invoke runs a call, again where the process was lost.
func invoke(ctx context.Context, r runner.Runner, call *runner.Call) (*runner.Reply, error) {
	for lost := 0; ; lost++ {
		reply, err := r.Run(ctx, call)
		var f *runner.Failure
		switch {
		case !errors.As(err, &f) || !f.Lost():
			return reply, err
		case lost < maxLost:
		case f.Reason == verdict.Killed:
			again := *f
			again.Msg += fmt.Sprintf(", %d times in a row", maxLost+1)
			return nil, &again
		default:
			return nil, err
		}
	}
}

// blame is the verdict for what a candidate did instead of replying: its own doing is an error, the rest not_run.
func blame(r verdict.Reason) verdict.Verdict {
	switch r {
	case verdict.NotStarted, verdict.MissingPackage, verdict.WorkerLost, verdict.Unsupported, verdict.NoCandidate:
		return verdict.NotRun
	}
	return verdict.Error
}

// internalFault keeps a fault of ours from becoming a verdict on the candidate.
func internalFault(res *verdict.Result, err error) {
	res.Verdict, res.Reason, res.Message = verdict.NotRun, verdict.Internal, "fault of gpuemu: "+err.Error()
	res.Hint = "please report it with the case's text"
	res.Outputs, res.Invariants = nil, nil
}
