package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/gen"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements the requests of protocol v1 on ops and their cases.

// validateOp judges an output under a seed of its own: the time, as in the published daemon, and never the same twice.
func (h *v1Handler) validateOp(ctx context.Context, r wire.V1ValidateOp) (wire.V1Reply, error) {
	seed := uint64(h.now().UnixNano())
	for {
		last := h.lastSeed.Load()
		seed = max(seed, last+1)
		if h.lastSeed.CompareAndSwap(last, seed) {
			break
		}
	}
	res, err := h.submit(ctx, wire.V1SubmitOutput{OpName: r.OpName, Inputs: r.Inputs, Output: r.Output, Seed: seed,
		Kwargs: r.Kwargs, Config: r.Config})
	if err != nil {
		return nil, err
	}
	return wire.V1ValidationResultReply{Result: *res}, nil
}

func (h *v1Handler) submitOutput(ctx context.Context, r wire.V1SubmitOutput) (wire.V1Reply, error) {
	res, err := h.submit(ctx, r)
	if err != nil {
		return nil, err
	}
	return wire.V1SubmitResult{Result: *res}, nil
}

func (h *v1Handler) submit(ctx context.Context, r wire.V1SubmitOutput) (*wire.V1ValidationResult, error) {
	p, err := h.configured(r.Config)
	if err != nil {
		return nil, err
	}
	inputs, err := tensorsOfV1("inputs", r.Inputs)
	if err != nil {
		return nil, err
	}
	output, err := tensorOfV1(&r.Output)
	if err != nil {
		return nil, v1Invalid("output", err)
	}
	res, err := h.engine.Submit(ctx, p, campaign.Submission{Op: r.OpName, Inputs: inputs, Attrs: r.Kwargs, Seed: r.Seed,
		Outputs: []tensor.Named{{Name: "output", Tensor: output}}})
	if err != nil {
		return nil, v1NoSuchOp(p, err)
	}
	out := v1Result(res)
	return &out, nil
}

// published reads the configuration of the published fuzzer for an op.
func (h *v1Handler) published(config *string, op string, c *wire.V1FuzzConfig) (
	campaign.Project, gen.FuzzConfig, error) {
	var fc gen.FuzzConfig
	p, err := h.configured(config)
	if err != nil {
		return p, fc, err
	}
	names, err := h.engine.InputNames(p, op)
	if err != nil {
		return p, fc, v1NoSuchOp(p, err)
	}
	if fc, err = fuzzConfigOfV1(c, names); err != nil {
		return p, fc, err
	}
	if err := campaign.CheckPublished(fc); err != nil {
		return p, fc, v1Invalid("fuzz_config", err)
	}
	return p, fc, nil
}

// maxV1ConfigBytes is the largest configuration that each failure of a run carries.
const maxV1ConfigBytes = 4 << 10

func (h *v1Handler) fuzzOp(ctx context.Context, r wire.V1FuzzOp) (wire.V1Reply, error) {
	p, fc, err := h.published(r.Config, r.OpName, &r.FuzzConfig)
	if err != nil {
		return nil, err
	}
	if r.Iterations > campaign.MaxCases {
		return nil, v1Error(wire.V1InvalidRequest, "Invalid request: iterations: %d asked for, at most %d are allowed",
			r.Iterations, campaign.MaxCases)
	}
	raw, err := json.Marshal(r.FuzzConfig)
	if err != nil {
		return nil, fmt.Errorf("fuzz_config: %w", err)
	}
	sum, err := h.engine.FuzzPublished(ctx, p, campaign.PublishedRun{Op: r.OpName, Config: fc, Seed: r.FuzzConfig.Seed,
		Iterations: int(r.Iterations), FailFast: r.FailFast, Raw: raw})
	if err != nil {
		return nil, v1NoSuchOp(p, err)
	}
	out := wire.V1FuzzResults{Seed: sum.Seed, Total: uint64(sum.Counts.Total), Passed: uint64(sum.Counts.Passed),
		Failed: uint64(sum.Counts.Total - sum.Counts.Passed), Failures: v1Results(sum.Failures)}
	for i := range out.Failures {
		if info := out.Failures[i].ReproInfo; info != nil && len(raw) <= maxV1ConfigBytes {
			info.FuzzConfig = &r.FuzzConfig
		}
	}
	return out, nil
}

func (h *v1Handler) getTestCase(ctx context.Context, r wire.V1GetTestCase) (wire.V1Reply, error) {
	_, fc, err := h.published(r.Config, r.OpName, &r.FuzzConfig)
	if err != nil {
		return nil, err
	}
	cases, err := h.cases(ctx, fc, r.FuzzConfig.Seed, 1)
	if err != nil {
		return nil, err
	}
	return wire.V1TestCase{V1TestCaseData: cases[0]}, nil
}

func (h *v1Handler) getTestBatch(ctx context.Context, r wire.V1GetTestBatch) (wire.V1Reply, error) {
	_, fc, err := h.published(r.Config, r.OpName, &r.FuzzConfig)
	if err != nil {
		return nil, err
	}
	if r.Count > maxV1Cases {
		return nil, v1Error(wire.V1InvalidRequest, "Invalid request: count: %d cases asked for, at most %d are allowed",
			r.Count, maxV1Cases)
	}
	cases, err := h.cases(ctx, fc, r.FuzzConfig.Seed, int(r.Count))
	if err != nil {
		return nil, err
	}
	return wire.V1TestBatch{Cases: cases}, nil
}

// cases makes the first cases of a master seed. Strides are those that the published fuzzer writes beside contiguous
// data.
func (h *v1Handler) cases(
	ctx context.Context, fc gen.FuzzConfig, master uint64, count int,
) ([]wire.V1TestCaseData, error) {
	var out []wire.V1TestCaseData
	total := 0
	for i := range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, err := fc.Case(master, i)
		if err != nil {
			return nil, v1Invalid("fuzz_config", err)
		}
		data := wire.V1TestCaseData{Seed: c.Seed, Shape: v1Dims(c.Shape), DType: c.DType.String(), Layout: c.Layout.String(),
			Inputs: map[string]wire.TensorData{}}
		for k := range c.Inputs {
			in := &c.Inputs[k]
			if total += len(in.Data); total > maxV1TensorBytes {
				return nil, v1Error(wire.V1InvalidRequest, "Invalid request: %d cases have more than %d bytes, which one reply "+
					"cannot hold: the first %d fit; ask for fewer cases at a time, or for smaller sizes",
					count, maxV1TensorBytes, i)
			}
			if h.engine.Hold != nil {
				release, err := h.engine.Hold(v1Bytes * int64(len(in.Data)))
				if err != nil {
					return nil, err
				}
				context.AfterFunc(ctx, release)
			}
			data.Inputs[in.Name] = wire.TensorData{Shape: v1Dims(in.Shape), Strides: v1Int64s(in.Strides),
				DType: c.DType.String(), Data: in.Data}
		}
		out = append(out, data)
	}
	return out, nil
}

// maxV1OfSeed is how many results of one seed are looked at.
const maxV1OfSeed = 1000

// getResult returns the newest result of a seed that is a judgement: ops that are fuzzed with one master seed share the
// seeds of their cases, and one that was not run says nothing.
func (h *v1Handler) getResult(ctx context.Context, r wire.V1GetResult) (wire.V1Reply, error) {
	seed := verdict.Seed(r.Seed)
	list, err := h.engine.Store.List(ctx, store.Filter{Seed: &seed, Limit: maxV1OfSeed})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, v1Error(wire.V1NotFound, "there is no result with seed %d", r.Seed)
	}
	judged := slices.IndexFunc(list, func(res verdict.Result) bool {
		return res.Verdict == verdict.Pass || res.Verdict.Failed()
	})
	return wire.V1ValidationResultReply{Result: v1Result(&list[max(judged, 0)])}, nil
}

// listResults lists results, the newest first. More than maxV1Listed are never sent.
func (h *v1Handler) listResults(ctx context.Context, limit uint64, f store.Filter) (wire.V1Reply, error) {
	if limit == 0 { // for the store this means all
		return wire.V1Results{}, nil
	}
	f.Limit = int(min(limit, maxV1Listed))
	list, err := h.engine.Store.List(ctx, f)
	if err != nil {
		return nil, err
	}
	return wire.V1Results{Results: v1Results(list)}, nil
}

// reproduce executes a stored case again. Where its op runs on the client, the stored result is the answer.
func (h *v1Handler) reproduce(ctx context.Context, r wire.V1Reproduce) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	replay, err := h.engine.Reproduce(ctx, p, campaign.Target{Seed: r.Seed})
	if err != nil {
		return nil, v1NoSuchOp(p, err)
	}
	res := replay.Result
	if res == nil {
		res = replay.Stored
	}
	out := wire.V1ReproduceResult{Result: v1Result(res)}
	if out.Inputs, err = v1Tensors(replay.Inputs); err != nil {
		return nil, err
	}
	if info := out.Result.ReproInfo; info != nil {
		info.InputSnapshot = v1Snapshot(replay.Case, replay.Inputs)
	}
	return out, nil
}

// v1Strategies are our names of the strategies of v1.
var v1Strategies = map[wire.V1Strategy]string{
	wire.V1BinarySearchDims:   campaign.MinimiseDims,
	wire.V1BinarySearchValues: campaign.MinimiseValues,
}

func (h *v1Handler) minimize(ctx context.Context, r wire.V1Minimize) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	if r.MaxIters == 0 || r.MaxIters > campaign.MaxMinimiseIters {
		return nil, v1Error(wire.V1InvalidRequest, "Invalid request: max_iters: %d asked for, want 1 to %d", r.MaxIters,
			campaign.MaxMinimiseIters)
	}
	m, err := h.engine.Minimise(ctx, p, campaign.MinimiseRequest{Target: campaign.Target{Seed: r.Seed},
		Strategy: v1Strategies[r.Strategy], MaxIters: int(r.MaxIters)})
	if diag.CodeOf(err) == campaign.NotFailing { // as the published daemon: it looks among failures only
		return nil, v1Error(wire.V1NotFound, "%s", v1Text(err))
	}
	if err != nil {
		return nil, v1NoSuchOp(p, err)
	}
	out := wire.V1MinimizeResult{OriginalSeed: r.Seed, MinimizedSeed: m.Case.Seed, Result: v1Result(m.Result)}
	if len(m.Case.Inputs) > 0 {
		out.MinimizedShape = v1Dims(m.Case.Inputs[0].Shape)
	}
	return out, nil
}
