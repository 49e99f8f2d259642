// This file implements the conversions between the types of the wire and those of the domain.

package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// maxOps is how many ops one request may name: a configuration has at most as many.
const maxOps = 10_000

// campaignRequest makes the request of a campaign. What can be wrong with a baseline is found here, before anything
// runs.
func (s *Server) campaignRequest(ctx context.Context, req *wire.RunRequest) (*campaign.Request, error) {
	switch req.Kind {
	case campaign.KindTest, campaign.KindFuzz, campaign.KindCI:
	default:
		return nil, diag.Errorf(BadRequest, "use test, fuzz or ci", "there is no kind of campaign %q", cut(req.Kind, 40))
	}
	if req.Quick && req.Thorough {
		return nil, diag.Errorf(BadRequest, "ask for one of them", "quick and thorough contradict each other")
	}
	if len(req.Ops) > maxOps {
		return nil, diag.Errorf(TooLarge, "", "%d ops asked for, at most %d are allowed", len(req.Ops), maxOps)
	}
	p, err := s.project(req.Config, req.Python, req.Env)
	if err != nil {
		return nil, err
	}
	if req.Resume != nil {
		if req, err = s.resumed(ctx, p, req); err != nil {
			return nil, err
		}
	}
	o, err := options(req.Values, req.Shapes, req.DTypes, req.Layouts, req.Dims)
	if err != nil {
		return nil, err
	}
	if o.Ranks, err = ranks(req.Ranks); err != nil {
		return nil, err
	}
	if o.Shard, err = campaign.ParseShard(req.Shard); err != nil {
		return nil, err
	}
	if o.TimeLimit, err = seconds("time limit", req.TimeLimitSeconds); err != nil {
		return nil, err
	}
	o.Ops, o.Quick, o.Iterations, o.FailFast, o.Parallel = req.Ops, req.Quick, req.Iterations, req.FailFast, req.Parallel
	if o.Seed = (*uint64)(req.Seed); o.Seed == nil && req.Kind == campaign.KindFuzz {
		if o.Seed, err = drawSeed(); err != nil {
			return nil, err
		}
	}
	if cfg := p.Config; cfg != nil {
		if o.Parallel == 0 {
			o.Parallel = cfg.CI.Parallel
		}
		if o.TimeLimit == 0 && !o.Quick && req.Kind != campaign.KindFuzz {
			o.TimeLimit = cfg.CI.ThoroughTimeout
		}
	}
	if req.Baseline != "" {
		if _, _, err := s.loadBaseline(ctx, p, req.Baseline, req.Dir); err != nil {
			return nil, err
		}
	}
	creq := &campaign.Request{Kind: req.Kind, Project: p, Options: o, Resume: req.Resume}
	if req.Kind != campaign.KindFuzz && len(req.Ops) == 0 && p.Config != nil && len(p.Config.Kernels) > 0 {
		doc, err := lintProject(ctx, s.store, p, nil, false)
		if err != nil {
			return nil, err
		}
		if creq.Lint, err = lintSummary(doc); err != nil {
			return nil, err
		}
	}
	return creq, nil
}

// drawSeed draws a master seed.
func drawSeed() (*uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("no random numbers from the system: %w", err)
	}
	seed := binary.LittleEndian.Uint64(b[:])
	return &seed, nil
}

// stored is what a campaign keeps of the request that started it, as package campaign writes it.
type stored struct {
	Ops                   []string
	Quick, FailFast       bool
	Seed                  wire.Seed
	Iterations            int
	Shard, Values, Shapes string
	DTypes, Layouts       []string
	Ranks                 []int
}

// resumed returns the request of the campaign that is to be continued: what decides on its cases comes from the store,
// so that nobody has to repeat it. A campaign that cannot be found is left to the engine to refuse.
func (s *Server) resumed(ctx context.Context, p campaign.Project, req *wire.RunRequest) (*wire.RunRequest, error) {
	var before *store.Campaign
	if *req.Resume != "" {
		c, err := s.store.Campaign(ctx, *req.Resume)
		if err != nil {
			return nil, err
		}
		if c.Kind != req.Kind {
			return nil, diag.Errorf(campaign.NotResumable, fmt.Sprintf("use gpuemu %s --resume=%s", c.Kind, c.ID),
				"campaign %s is of kind %s, not %s", c.ID, c.Kind, req.Kind)
		}
		before = c
	} else {
		list, err := s.store.Campaigns(ctx, store.CampaignFilter{ConfigPath: projectKey(p), Kind: req.Kind, Limit: MaxListed})
		if err != nil {
			return nil, err
		}
		for i := range list {
			c := &list[i]
			other, err := s.store.RunByOther(c)
			if err != nil {
				return nil, err
			}
			busy := other || s.running(c.ID) != nil
			if c.State != store.Finished && !busy && (req.Seed == nil || verdict.Seed(*req.Seed) == c.Seed) {
				before = c
				break
			}
		}
	}
	if before == nil {
		return req, nil
	}
	var was stored
	if err := json.Unmarshal(before.Request, &was); err != nil {
		return nil, diag.Errorf(campaign.NotResumable, "start a new run without --resume",
			"campaign %s cannot be continued: its request cannot be read: %w", before.ID, err)
	}
	out := *req
	out.Resume, out.Seed = &before.ID, &was.Seed
	out.Ops, out.Quick, out.Thorough, out.FailFast = was.Ops, was.Quick, false, was.FailFast
	out.Iterations, out.Shard, out.Values, out.Shapes = was.Iterations, was.Shard, was.Values, was.Shapes
	out.DTypes, out.Layouts, out.Ranks = was.DTypes, was.Layouts, was.Ranks
	return &out, nil
}

// options converts what says which cases there are.
func options(
	values, shapes string, dtypes, layouts []string, dims map[string][]int,
) (campaign.Options, error) {
	o := campaign.Options{Values: values, Shapes: shapes, Dims: dims}
	if len(dtypes) > maxOps || len(layouts) > maxOps {
		return o, diag.Errorf(TooLarge, "", "%d dtypes and %d layouts asked for", len(dtypes), len(layouts))
	}
	for _, name := range dtypes {
		d, err := dtype.Parse(name)
		if err != nil {
			return o, badName(err)
		}
		o.DTypes = append(o.DTypes, d)
	}
	for _, name := range layouts {
		l, err := tensor.ParseLayout(name)
		if err != nil {
			return o, badName(err)
		}
		o.Layouts = append(o.Layouts, l)
	}
	return o, nil
}

// ranks limits how many ranks are asked for; which there are, the generator says.
func ranks(list []int) ([]int, error) {
	if len(list) > maxOps {
		return nil, diag.Errorf(TooLarge, "", "%d ranks asked for", len(list))
	}
	return list, nil
}

// badName gives an error of a package that cannot have codes the one of a bad request.
func badName(err error) error {
	if diag.CodeOf(err) != "" {
		return err
	}
	return diag.Errorf(BadRequest, diag.HintOf(err), "%w", err)
}

// maxSpan is the longest time that a request may name: ten years.
const maxSpan = 10 * 365 * 24 * time.Hour

// seconds converts a number of seconds.
func seconds(what string, n float64) (time.Duration, error) {
	if math.IsNaN(n) || n < 0 || n > maxSpan.Seconds() {
		return 0, diag.Errorf(BadRequest, "send a positive number", "%s is %g seconds", what, n)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// since converts a number of hours to look back; the zero time means everything.
func (s *Server) since(hours float64) (time.Time, error) {
	if hours == 0 {
		return time.Time{}, nil
	}
	span, err := seconds("the time to look back", hours*3600)
	if err != nil {
		return time.Time{}, err
	}
	return s.opt.Now().Add(-span), nil
}

// target names the case of a request.
func target(seed *wire.Seed, text, op string) (campaign.Target, error) {
	switch {
	case text != "":
		return campaign.ParseTarget(text, op)
	case seed != nil:
		return campaign.Target{Seed: uint64(*seed), Op: op}, nil
	}
	return campaign.Target{}, diag.Errorf(BadRequest, "send seed or case", "the request names no case")
}

// projectName is the name of a project in lists.
func projectName(p campaign.Project) string {
	switch {
	case p.Config == nil:
		return ""
	case p.Config.Project.Name != "":
		return p.Config.Project.Name
	}
	return filepath.Base(p.Config.Dir)
}

// projectKey is what baselines of a project are stored under.
func projectKey(p campaign.Project) string {
	if p.Config == nil {
		return ""
	}
	return p.Config.Path
}

// encodeResult writes a result; numbers that JSON does not have become the nearest that it has.
func encodeResult(r *verdict.Result) (json.RawMessage, error) {
	if r == nil {
		return nil, nil
	}
	text, err := json.Marshal(r)
	var odd *json.UnsupportedValueError
	if errors.As(err, &odd) {
		text, err = json.Marshal(r.Saturated())
	}
	if err != nil {
		return nil, fmt.Errorf("result of %s: %w", r.Op, err)
	}
	return text, nil
}

// marshal writes a document of the domain.
func marshal(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("reply %T: %w", v, err)
	}
	return text, nil
}
