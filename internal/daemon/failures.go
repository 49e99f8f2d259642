// This file implements the list of stored failures: which are open, which are fixed, and how they are forgotten.

package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"gpuemu/internal/diag"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

func (s *Server) failures(ctx context.Context, req *wire.FailuresRequest) (*wire.FailuresReply, error) {
	const usual = 20 // the documented default
	since, err := s.since(req.SinceHours)
	if err != nil {
		return nil, err
	}
	limit := req.Limit
	switch {
	case limit == 0:
		limit = usual
	case limit < 0 || limit > MaxListed:
		return nil, diag.Errorf(BadRequest, fmt.Sprintf("use 1 to %d", MaxListed), "%d failures asked for", limit)
	}
	config, err := applying(req.Config, req.Env)
	if err != nil {
		return nil, err
	}
	filter := store.Filter{Op: req.Op, Since: since, ConfigPath: config, Limit: limit, FailedOnly: true}
	out := &wire.FailuresReply{Results: []json.RawMessage{}}
	add := adder(out)
	if req.Brief {
		whole := add
		add = func(text json.RawMessage) error {
			outline, err := verdict.Outline(text)
			if err != nil {
				return diag.Errorf(store.Damaged, "", "a stored failure: %w", err)
			}
			return whole(outline)
		}
	}
	switch {
	case req.Open:
		return out, s.store.OpenFailures(ctx, filter, add)
	case req.Marked:
		return out, s.store.MarkedFailures(ctx, filter, func(text json.RawMessage, fixed bool) error {
			if fixed {
				out.Fixed = append(out.Fixed, len(out.Results))
			}
			return add(text)
		})
	}
	return out, s.store.FailureTexts(ctx, filter, add)
}

// clear handles POST /v1/failures/clear.
func (s *Server) clear(ctx context.Context, req *wire.ClearRequest) (*wire.ClearReply, error) {
	config, err := applying(req.Config, req.Env)
	if err != nil {
		return nil, err
	}
	n, err := s.store.ClearFailures(ctx, config, req.Op)
	return &wire.ClearReply{Cleared: n}, err
}
