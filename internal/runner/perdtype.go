package runner

// This file implements kernels that are compiled once per number format.

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// perDType launches the kernel of the number format that a call has.
type perDType struct {
	spec KernelSpec

	mu   sync.Mutex
	open map[dtype.DType]*kernelRunner // guarded by mu
}

// newPerDType opens the kernels of spec.DTypes. Others are opened when they are asked for: a case that is replayed may
// have a format that the configuration does not name.
func newPerDType(spec KernelSpec) (Runner, error) {
	r := &perDType{spec: spec, open: map[dtype.DType]*kernelRunner{}}
	for _, d := range spec.DTypes {
		if _, err := r.kernel(d); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// kernel is the one of a number format.
func (r *perDType) kernel(d dtype.DType) (*kernelRunner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.open[d]; k != nil {
		return k, nil
	}
	spec, launch := r.spec, *r.spec.Launch
	launch.Launch = launch.In(d)
	spec.Launch = &launch
	k, err := newKernel(spec)
	var e *diag.Error
	switch {
	case errors.As(err, &e) && e.Code == TargetMissing:
		e.Hint = fmt.Sprintf("compile the kernel for %s, or leave %[1]s out of dtypes", d)
		return nil, e
	case err != nil:
		return nil, err
	}
	r.open[d] = k
	return k, nil
}

// Run launches the kernel of the call's number format.
func (r *perDType) Run(ctx context.Context, call *Call) (*Reply, error) {
	k, err := r.kernel(call.DType)
	if err != nil {
		return nil, unsupported(err)
	}
	return k.Run(ctx, call)
}

// Close does nothing: there are no processes.
func (r *perDType) Close() error { return nil }
