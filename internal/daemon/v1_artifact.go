package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"gpuemu/internal/wire"
)

// This file implements the requests of protocol v1 on artifacts: metrics of compiled kernels are kept as they are sent.

func (h *v1Handler) storeArtifact(ctx context.Context, r wire.V1StoreArtifact) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(r.Metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := h.engine.Store.PutArtifact(ctx, projectKey(p), r.Metrics.KernelName, body); err != nil {
		return nil, err
	}
	return wire.V1Ok{}, nil
}

func (h *v1Handler) getArtifact(ctx context.Context, r wire.V1GetArtifact) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	a, ok, err := h.engine.Store.Artifact(ctx, projectKey(p), r.KernelName)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, v1Error(wire.V1ArtifactNotFound, "there is no artifact of kernel %q", r.KernelName)
	}
	m, err := v1Metrics(a.Body)
	return wire.V1ArtifactMetricsResult{V1ArtifactMetrics: m}, err
}

func (h *v1Handler) listArtifacts(ctx context.Context) (wire.V1Reply, error) {
	p, err := h.configured(nil)
	if err != nil {
		return nil, err
	}
	list, err := h.engine.Store.Artifacts(ctx, projectKey(p))
	if err != nil {
		return nil, err
	}
	var out wire.V1ArtifactList
	for i := range list {
		m, err := v1Metrics(list[i].Body)
		if err != nil {
			return nil, err
		}
		out.Artifacts = append(out.Artifacts, m)
	}
	return out, nil
}

func v1Metrics(body json.RawMessage) (wire.V1ArtifactMetrics, error) {
	var m wire.V1ArtifactMetrics
	if err := json.Unmarshal(body, &m); err != nil {
		return m, fmt.Errorf("stored artifact: %w", err)
	}
	return m, nil
}
