// This file implements the minimisation of cases that only the client can execute.

package daemon

import (
	"context"
	"fmt"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/wire"
)

// maxTried bounds the answers of one request: each is a case that the client has run.
const maxTried = 10_000

// shrinkStep handles POST /v1/shrink.
func (s *Server) shrinkStep(_ context.Context, req *wire.ShrinkRequest) (*wire.ShrinkReply, error) {
	if len(req.Tried) > maxTried {
		return nil, diag.Errorf(BadRequest, fmt.Sprintf("at most %d", maxTried), "%d cases were tried", len(req.Tried))
	}
	p, err := s.project(req.Config, "", nil)
	if err != nil {
		return nil, err
	}
	step := campaign.Simpler{Tried: req.Tried, Strategy: req.Strategy, MaxIters: req.MaxIters, AnyDType: req.AnyDType}
	if step.Case, err = opspec.ParseCase(req.Case); err != nil {
		return nil, err
	}
	if len(req.Schema) > 0 {
		if step.Schema, err = opspec.ParseSchema(req.Schema); err != nil {
			return nil, err
		}
	}
	next, best, more, err := s.engine.Next(p, step)
	if err != nil {
		return nil, err
	}
	reply := &wire.ShrinkReply{Best: best.String()}
	if more {
		reply.Next = next.String()
	}
	return reply, nil
}
