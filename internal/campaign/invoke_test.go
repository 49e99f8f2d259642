package campaign

import (
	"context"
	"errors"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/runner"
	"gpuemu/internal/verdict"
)

// flaky loses its process a number of times before it replies.
type flaky struct {
	losses, calls int
	reason        verdict.Reason
}

func (f *flaky) Run(context.Context, *runner.Call) (*runner.Reply, error) {
	if f.calls++; f.calls <= f.losses {
		return nil, &runner.Failure{Reason: f.reason, Msg: "killed"}
	}
	return &runner.Reply{}, nil
}

func (f *flaky) Close() error { return nil }

// A process that was killed from outside is tried again, a few times; what the code itself did is not.
func TestLostProcessesAreTriedAgain(t *testing.T) {
	f := &flaky{losses: maxLost, reason: verdict.WorkerLost}
	if _, err := invoke(t.Context(), f, &runner.Call{}); err != nil || f.calls != maxLost+1 {
		t.Errorf("after %d losses: %v with %d calls", f.losses, err, f.calls)
	}
	f = &flaky{losses: 1000, reason: verdict.WorkerLost}
	_, err := invoke(t.Context(), f, &runner.Call{})
	var lost *runner.Failure
	if !errors.As(err, &lost) || lost.Reason != verdict.WorkerLost || f.calls != maxLost+1 {
		t.Errorf("lost every time: %v with %d calls", err, f.calls)
	}
	f = &flaky{losses: maxLost, reason: verdict.Killed}
	if _, err := invoke(t.Context(), f, &runner.Call{}); err != nil {
		t.Errorf("after %d signals: %v", f.losses, err)
	}
	f.calls, f.losses = 0, 1000
	_, err = invoke(t.Context(), f, &runner.Call{})
	if !errors.As(err, &lost) || lost.Msg != "killed, 5 times in a row" || f.calls != maxLost+1 ||
		blame(lost.Reason) != verdict.Error {
		t.Errorf("a signal every time: %v with %d calls", err, f.calls)
	}
	if maxLost < 1 {
		t.Error("a lost process is never tried again")
	}
}

// The configuration's values are for finding faults: a tolerance fitted next to overflow would accept anything.
func TestCalibrateOnUsualValues(t *testing.T) {
	tr := newTrial(t, "[validation]\ndtypes = [\"float32\"]\nvalues = \"adversarial\"\n"+
		op("double", "double", "reference = \"ops.py:double64\"\ninput_names = [\"x\"]"))
	cal, err := tr.Calibrate(t.Context(), tr.project, CalibrateRequest{Op: "double", DType: dtype.Float32, Iterations: 40})
	if err != nil || cal.Tol.Abs > 1e-3 {
		t.Errorf("Calibrate = %+v, %v, want a tolerance below 1e-3", cal, err)
	}
}
