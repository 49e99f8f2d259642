// This file implements the requests about the daemon and about single cases.

package daemon

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"gpuemu/internal/atomicfile"
	"gpuemu/internal/campaign"
	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

//go:embed openapi_gen.json
var openAPIDocument []byte

// openAPI handles GET /v1/openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(openAPIDocument) // a peer that is gone needs no answer
	return nil
}

func (s *Server) ping(*http.Request) (*wire.Ping, error) {
	ping := s.identity()
	return &ping, nil
}

// identity says who answers.
func (s *Server) identity() wire.Ping {
	return wire.Ping{Version: s.opt.Version, Protocol: wire.Protocol, PID: os.Getpid(),
		UptimeSeconds: s.opt.Now().Sub(s.started).Seconds(), IdleSeconds: s.opt.Idle.Seconds()}
}

func (s *Server) status(r *http.Request) (*wire.Status, error) {
	u, err := s.store.Usage(r.Context())
	if err != nil {
		return nil, err
	}
	out := &wire.Status{
		Ping: s.identity(), Socket: s.opt.Socket, Home: s.opt.Home,
		Store: wire.StoreStatus{Path: s.store.Dir(), Bytes: u.Database + u.Log + u.Blobs, Rows: int64(u.Results),
			Version: u.Schema},
		Campaigns: []wire.CampaignStatus{},
	}
	s.mu.Lock()
	var runs []*run
	for _, here := range s.runs {
		runs = append(runs, here)
	}
	s.mu.Unlock()
	slices.SortFunc(runs, func(x, y *run) int { return x.started.Compare(y.started) })
	for _, here := range runs {
		now := here.feed.now().progress
		out.Campaigns = append(out.Campaigns, wire.CampaignStatus{ID: here.id, Kind: here.kind, Project: here.project,
			Done: now.Done, Planned: now.Planned, Failed: now.Failed, Started: here.started})
	}
	return out, nil
}

// shutdown handles POST /v1/shutdown. Whoever serves the server sees its context end.
func (s *Server) shutdown(*http.Request) (*wire.Done, error) {
	s.opt.Log.Info("a client asks the daemon to stop")
	s.shut()
	return &wire.Done{}, nil
}

func (s *Server) health(r *http.Request) (*wire.HealthReply, error) {
	lines, err := s.store.Health(r.Context())
	if err != nil {
		return nil, err
	}
	out := &wire.HealthReply{Lines: []wire.HealthLine{}}
	for _, l := range lines {
		out.Lines = append(out.Lines, wire.HealthLine{Name: l.Name, Value: l.Value, OK: l.OK, Fix: l.Fix})
	}
	return out, nil
}

func (s *Server) reproduce(ctx context.Context, req *wire.ReproduceRequest) (*wire.ReproduceReply, error) {
	p, err := s.project(req.Config, req.Python, req.Env)
	if err != nil {
		return nil, err
	}
	t, err := target(req.Seed, req.Case, req.Op)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.Reproduce(ctx, p, t)
	if err != nil {
		return nil, err
	}
	out := &wire.ReproduceReply{Case: got.Case.String(), StillFails: got.StillFails(), Executable: got.Result != nil}
	for _, text := range got.Others {
		ref := wire.CaseRef{Case: text}
		if c, err := opspec.ParseCase(text); err == nil {
			ref.Op, ref.DType, ref.Seed = c.Op, c.DType.String(), wire.Seed(c.Seed)
		}
		out.Others = append(out.Others, ref)
	}
	if out.Result, err = encodeResult(got.Result); err != nil {
		return nil, err
	}
	out.Stored, err = encodeResult(got.Stored)
	return out, err
}

// tensors handles POST /v1/tensors.
func (s *Server) tensors(w http.ResponseWriter, r *http.Request) error {
	var req wire.TensorsRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	p, err := s.project(req.Config, "", nil)
	if err != nil {
		return err
	}
	t, err := target(req.Seed, req.Case, req.Op)
	if err != nil {
		return err
	}
	found, err := s.engine.Locate(r.Context(), p, t)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", tensorsType)
	return tensor.WriteSafetensors(w, inOrder(found.Case, found.Inputs), map[string]string{"case": found.Case.String()})
}

// inOrder lists the inputs of a case in the order of its text.
func inOrder(c opspec.Case, inputs map[string]*tensor.Tensor) []tensor.Named {
	var list []tensor.Named
	for _, in := range c.Inputs {
		list = append(list, tensor.Named{Name: in.Name, Tensor: inputs[in.Name]})
	}
	return list
}

func (s *Server) results(ctx context.Context, req *wire.ResultsRequest) (*wire.FailuresReply, error) {
	const usual = 100 // the documented default of list_results
	limit := req.Limit
	switch {
	case limit == 0:
		limit = usual
	case limit < 0 || limit > MaxListed:
		return nil, diag.Errorf(BadRequest, fmt.Sprintf("use 1 to %d", MaxListed), "%d results asked for", limit)
	}
	return s.find(ctx, store.Filter{Op: req.Op, Seed: (*verdict.Seed)(req.Seed), Limit: limit})
}

// maxAnswer is how many bytes a list of results has: ten thousand ordinary ones fit several times.
const maxAnswer = 128 << 20

// find lists results, newest first. The store is asked for as many as are wanted: it reads and parses pages.
func (s *Server) find(ctx context.Context, filter store.Filter) (*wire.FailuresReply, error) {
	out := &wire.FailuresReply{Results: []json.RawMessage{}}
	add := adder(out)
	return out, s.store.Find(ctx, filter, func(f *store.Found) error {
		text, err := encodeResult(&f.Result)
		if err != nil {
			return err
		}
		return add(text)
	})
}

// adder returns a function that adds results to an answer, up to its limit.
func adder(out *wire.FailuresReply) func(text json.RawMessage) error {
	size := 0
	return func(text json.RawMessage) error {
		if size += len(text); size > maxAnswer {
			return diag.Errorf(TooLarge, "ask for fewer at a time", "%d results have more than %d bytes",
				len(out.Results)+1, maxAnswer)
		}
		out.Results = append(out.Results, text)
		return nil
	}
}

// reporter returns a function that sends progress of a long request, at most every progressInterval.
func reporter(out *stream) func(done, budget int) {
	var last time.Time
	return func(done, budget int) {
		if now := time.Now(); now.Sub(last) >= progressInterval {
			last = now
			// A peer that is gone ends the request's context; nothing else needs to know.
			_ = out.send(wire.EventProgress, wire.WorkEvent{Type: wire.EventProgress, Done: done, Budget: budget})
		}
	}
}

// conclude sends the last event of a long request.
func conclude(out *stream, reply any, err error) error {
	ev := wire.WorkEvent{Type: wire.EventDone}
	if err == nil {
		ev.Reply, err = marshal(reply)
	}
	if err != nil {
		ev.Error = toWire(err)
	}
	_ = out.send(ev.Type, ev) // a peer that is gone needs no answer
	return nil
}

// minimize handles POST /v1/minimize.
func (s *Server) minimize(w http.ResponseWriter, r *http.Request) error {
	var req wire.MinimizeRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	p, err := s.project(req.Config, req.Python, req.Env)
	if err != nil {
		return err
	}
	t, err := target(&req.Seed, req.Case, req.Op)
	if err != nil {
		return err
	}
	// What is known to be wrong before the work begins is answered with a status of its own.
	if _, err := s.engine.Locate(r.Context(), p, t); err != nil {
		return err
	}
	out := newStream(w)
	got, err := s.engine.Minimise(r.Context(), p, campaign.MinimiseRequest{
		Target: t, Strategy: req.Strategy, MaxIters: req.MaxIters, AnyDType: req.AnyDType, AnyFailure: req.AnyFailure,
		Progress: reporter(out)})
	if err != nil {
		return conclude(out, nil, err)
	}
	reply := wire.MinimizeReply{Case: got.Case.String(), Portable: got.Portable, Executed: got.Executed,
		Unchanged: got.Unchanged}
	if reply.Original, err = encodeResult(got.Original); err == nil {
		reply.Minimized, err = encodeResult(got.Result)
	}
	return conclude(out, reply, err)
}

// calibrate handles POST /v1/calibrate.
func (s *Server) calibrate(w http.ResponseWriter, r *http.Request) error {
	var req wire.CalibrateRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	p, err := s.project(req.Config, req.Python, req.Env)
	if err != nil {
		return err
	}
	dtypes, err := calibratedTypes(p, &req)
	if err != nil {
		return err
	}
	out := newStream(w)
	reply, err := s.calibrateAll(r.Context(), p, &req, dtypes, reporter(out))
	return conclude(out, reply, err)
}

// calibratedTypes are the dtypes to calibrate for: the one asked for, or those configured that are no integers, which
// need no tolerance.
func calibratedTypes(p campaign.Project, req *wire.CalibrateRequest) ([]dtype.DType, error) {
	if req.DType != "" {
		d, err := dtype.Parse(req.DType)
		if err != nil {
			return nil, badName(err)
		}
		return []dtype.DType{d}, nil
	}
	cfg := p.Config
	if cfg == nil {
		cfg = config.Default()
	}
	list := cfg.Validation.DTypes
	if op, ok := cfg.Op(req.Op); ok {
		list = cfg.DTypesOf(op)
	}
	var out []dtype.DType
	for _, d := range list {
		if d.IsFloat() {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		return nil, diag.Errorf(BadRequest, "name a dtype", "op %q has no floating-point dtype", req.Op)
	}
	return out, nil
}

func (s *Server) calibrateAll(
	ctx context.Context, p campaign.Project, req *wire.CalibrateRequest, dtypes []dtype.DType,
	progress func(done, total int),
) (*wire.CalibrateReply, error) {
	seed := uint64(1)
	if req.Seed != nil {
		seed = uint64(*req.Seed)
	}
	reply := &wire.CalibrateReply{}
	for i, d := range dtypes {
		got, err := s.engine.Calibrate(ctx, p, campaign.CalibrateRequest{
			Op: req.Op, DType: d, Iterations: req.Iterations, Seed: seed,
			Progress: func(done, total int) { progress(i*total+done, len(dtypes)*total) },
		})
		if err != nil {
			return nil, err
		}
		fitted := calibration(got.DType, got.Calibration)
		fitted.Op = got.Op
		reply.Calibrations = append(reply.Calibrations, *fitted)
	}
	if req.Write {
		if err := s.writeTolerances(p, reply, dtypes); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// writeTolerances puts fitted tolerances into gpuemu.toml. The file is replaced as a whole, or not at all.
func (s *Server) writeTolerances(p campaign.Project, reply *wire.CalibrateReply, dtypes []dtype.DType) error {
	if p.Config == nil {
		return diag.Errorf(BadRequest, "gpuemu init writes one", "there is no gpuemu.toml to write to")
	}
	path := p.Config.Path
	text, err := os.ReadFile(path)
	if err != nil {
		return diag.Errorf(config.Unreadable, "", "%w", err)
	}
	for i, c := range reply.Calibrations {
		if text, err = config.SetTolerance(text, c.Op, dtypes[i], compare.Tolerance{Abs: c.ATol, Rel: c.RTol}); err != nil {
			return err
		}
	}
	err = atomicfile.Replace(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return diag.Errorf(config.Unreadable, "look at the permissions of the file and its directory", "%w", err)
	}
	reply.Written = path
	return nil
}

// submitted is the judgement of a client's outputs as it is sent.
func submitted(res *verdict.Result) (*wire.SubmitReply, error) {
	text, err := encodeResult(res)
	if err != nil {
		return nil, err
	}
	return &wire.SubmitReply{Result: text}, nil
}
