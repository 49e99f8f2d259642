// This file implements the list of stored failures: which are open, which are fixed, and how they are forgotten.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
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
	filter := store.Filter{Op: req.Op, Since: since, FailedOnly: true, ConfigPath: config}
	if !req.Open && !req.Marked {
		filter.Limit = limit
		return s.find(ctx, filter)
	}
	req.Limit = limit
	return s.marked(ctx, filter, req)
}

// errEnough ends a search that has found what it wants.
var errEnough = errors.New("enough")

// marked lists failures, newest first, and tells those that are fixed.
func (s *Server) marked(
	ctx context.Context, filter store.Filter, req *wire.FailuresRequest,
) (*wire.FailuresReply, error) {
	out := &wire.FailuresReply{Results: []json.RawMessage{}}
	seen := latest{}
	err := s.store.Find(ctx, filter, func(f *store.Found) error {
		if req.Open && !seen.take(&f.Result) {
			return nil
		}
		fixed, err := s.fixed(ctx, f)
		if err != nil || fixed && req.Open {
			return err
		}
		text, err := encodeResult(&f.Result)
		if err != nil {
			return err
		}
		if fixed {
			out.Fixed = append(out.Fixed, len(out.Results))
		}
		if out.Results = append(out.Results, text); len(out.Results) >= req.Limit {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return out, nil
}

// fixed reports whether the case of a failure passed later in the same project. A minimized case, which no run comes
// back to, is fixed with the case that it was made of.
func (s *Server) fixed(ctx context.Context, f *store.Found) (bool, error) {
	seed := f.Seed
	if f.ShrunkFrom != nil {
		seed = *f.ShrunkFrom
	}
	err := s.store.Find(ctx, store.Filter{Op: f.Op, Seed: &seed, Since: f.Time}, func(later *store.Found) error {
		same := later.Case == f.Case && later.DType == f.DType || f.ShrunkFrom != nil
		if same && later.Verdict == verdict.Pass && later.ConfigPath == f.ConfigPath {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return true, nil
	}
	return false, err
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
