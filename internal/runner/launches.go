//go:build unix

package runner

// This file implements launches of Triton kernels by a function: the worker sends them back while it is called, and
// they are executed by the emulator.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// launches are what came of the launches of one call.
type launches struct {
	executed int
	findings []verdict.Finding
	dropped  int
	refused  *Failure // why the first one was not executed that was not; nil: all were
}

// failure is what a call that failed deserves: where a launch was not executed, nothing is known of the kernel.
func (l *launches) failure(f *Failure) *Failure {
	if l.refused == nil {
		return f
	}
	own := *l.refused
	own.Stderr = f.Stderr
	return &own
}

// refuse notes a launch that was not executed, or not to its end. The first one is the cause of what follows.
func (l *launches) refuse(f *Failure) {
	if l.refused == nil {
		l.refused = f
	}
}

// missing is why a reply of a function does not count: a launch was not executed, and what the function returned is
// not the kernel's; or it launched nothing, so that no kernel is behind its outputs.
func (l *launches) missing(r *workerRunner, outputs []tensor.Named) *Failure {
	if l.refused != nil {
		return l.failure(&Failure{})
	}
	if r.spec.Emulator == nil || l.executed > 0 {
		return nil
	}
	for _, o := range outputs {
		if o.Tensor.Shape.Elems() > 0 {
			return &Failure{Reason: verdict.Unsupported, Msg: r.who + " launched no Triton kernel",
				Hint: `launch it as kernel[grid](...), or leave execution_mode = "emulate" out`}
		}
	}
	return nil
}

// library is the directory of the client for a worker whose launches are emulated; "" for others.
func (r *workerRunner) library() (string, error) {
	if r.spec.Emulator == nil || r.file == "" {
		return "", nil
	}
	return r.files.client()
}

// launch executes a launch that a worker asks for, and returns the header of the answer.
func (r *workerRunner) launch(ctx context.Context, w *worker, h *replyHeader, deadline time.Time) ([]byte, error) {
	image, err := imageBytes(w.output, h.Image, r.spec.Limits.Output)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	doc, outputs, err := r.spec.Emulator.Launch(limited, h.Launch, image)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, &Failure{Reason: verdict.OverBudget, Msg: "the emulator did not finish a launch of " + r.who + " in time",
			Hint: "set timeout of the op, or use smaller shapes"}
	case err != nil:
		w.launches.refuse(refusedLaunch(diag.CodeOf(err), err.Error(), diag.HintOf(err)))
		return launchAnswer(w.lastID, 0, nil, err), nil
	case doc.Error != nil:
		w.launches.refuse(refusedLaunch(diag.Code(doc.Error.Code), doc.Error.Message, doc.Error.Hint))
	default:
		w.launches.executed++
	}
	for i := range doc.Findings {
		if len(w.launches.findings) == maxCaseFindings {
			w.launches.dropped += len(doc.Findings) - i
			break
		}
		w.launches.findings = append(w.launches.findings, findingOf(doc.PTX, &doc.Findings[i]))
	}
	w.launches.dropped += doc.Dropped
	size, err := writeOutputs(w, outputs)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("the document of a launch: %w", err)
	}
	return launchAnswer(w.lastID, size, text, nil), nil
}

// refusedLaunch is the failure of a launch that is not executed, or not to its end, as an endless one.
func refusedLaunch(code diag.Code, message, hint string) *Failure {
	f := &Failure{Reason: verdict.Unsupported, Msg: message, Hint: hint}
	if code == ptxvm.Budget {
		f.Reason = verdict.OverBudget
	}
	return f
}

// writeOutputs writes what a kernel wrote to the output image, which the worker reads before it goes on.
func writeOutputs(w *worker, outputs []tensor.Named) (int64, error) {
	if len(outputs) == 0 {
		return 0, nil
	}
	to := io.NewOffsetWriter(w.output, 0)
	if err := tensor.WriteSafetensors(to, outputs, nil); err != nil {
		return 0, err
	}
	return to.Seek(0, io.SeekCurrent)
}

// launchAnswer is the answer to a launch: the document and the length of the image, or why there is none.
func launchAnswer(id uint64, size int64, document []byte, fault error) []byte {
	b := fmt.Appendf(nil, `{"type":"launched","id":%d,"image":%d`, id, size)
	if fault != nil {
		message := fault.Error()
		var e *diag.Error
		if errors.As(fault, &e) {
			b = appendString(append(b, `,"hint":`...), e.Hint)
			b = appendString(append(b, `,"code":`...), string(e.Code))
		}
		b = appendString(append(b, `,"message":`...), message)
	} else {
		b = append(append(b, `,"emulation":`...), document...)
	}
	return append(b, '}')
}
