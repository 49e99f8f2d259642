// This file implements campaigns: starting, following, cancelling, listing.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

const (
	// MaxCampaigns is how many campaigns may run at once. Each has a process per core; more only get in each other's way.
	MaxCampaigns = 64
	// MaxListed is how many campaigns or failures one reply lists at most.
	MaxListed = 10_000
)

// run is a running campaign.
type run struct {
	id, kind, project, config string
	seed                      uint64
	started                   time.Time
	cancel                    context.CancelCauseFunc
	feed                      *feed
	ended                     chan struct{} // closed when the store knows how it ended
}

// errCancelled is why a campaign ends when a client asks for it.
var errCancelled = fmt.Errorf("cancelled by a client: %w", context.Canceled)

// reserve takes a slot for a campaign; release gives it back.
func (s *Server) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return diag.Errorf(Stopping, "start it again: gpuemu daemon start", "the daemon is stopping")
	case s.slots >= MaxCampaigns:
		return diag.Errorf(Busy, "wait until one ends, or cancel one: gpuemu status", "%d campaigns are running", s.slots)
	}
	s.slots++
	s.work.Add(1)
	return nil
}

func (s *Server) release() {
	s.mu.Lock()
	s.slots--
	s.used = s.opt.Now()
	s.mu.Unlock()
	s.work.Done()
}

// forget takes a campaign that has ended off the list: from now on the store alone speaks for it.
func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, id)
}

// launch prepares a campaign and starts it. ctx is that of the request: it ends the preparation, not the campaign. The
// caller has joined its feed and must leave it.
func (s *Server) launch(ctx context.Context, req *wire.RunRequest) (_ *run, err error) {
	creq, err := s.campaignRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.Kind != campaign.KindFuzz { // fuzz promises the command of every failure instead
		creq.Conclude = func(ctx context.Context, sum *verdict.Summary) error {
			return s.guarded(func() error { return s.group(ctx, creq.Project, sum) })
		}
	}
	if err := s.reserve(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if creq.Resume != nil {
		if err := s.notRunning(*creq.Resume); err != nil {
			return nil, err
		}
	}
	events, err := newFeed(s.runDir)
	if err != nil {
		return nil, err
	}
	prepared, err := s.engine.Prepare(ctx, *creq)
	if err != nil {
		events.leave()
		return nil, err
	}
	runCtx, cancel := context.WithCancelCause(s.ctx)
	r := &run{cancel: cancel, id: prepared.ID, kind: req.Kind, config: projectKey(creq.Project), seed: prepared.Seed,
		project: projectName(creq.Project), started: s.opt.Now(), feed: events, ended: make(chan struct{})}
	events.campaign, events.plan = prepared.ID, prepared.Planned
	if creq.Resume != nil {
		_, err = s.store.Resume(ctx, r.id)
	}
	if err == nil {
		err = s.register(r)
	}
	if err != nil {
		cancel(nil)
		events.leave()
		return nil, err
	}
	events.join()
	go s.execute(runCtx, r, prepared, creq.Project, req)
	return r, nil
}

// notRunning refuses to resume what runs here already.
func (s *Server) notRunning(id string) error {
	if s.running(id) == nil {
		return nil
	}
	return taken(id)
}

func taken(id string) error {
	return diag.Errorf(store.CampaignTaken, "wait until it ends, or cancel it", "campaign %s is running", id)
}

func (s *Server) register(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[r.id] != nil {
		return taken(r.id)
	}
	s.runs[r.id] = r
	return nil
}

// execute runs a prepared campaign to its end. It is the goroutine of the campaign.
func (s *Server) execute(
	ctx context.Context, r *run, prepared *campaign.Run, p campaign.Project, req *wire.RunRequest,
) {
	defer s.release()
	defer r.feed.leave()
	defer close(r.ended)
	defer r.cancel(nil)
	s.opt.Log.Info("campaign starts", "campaign", r.id, "kind", r.kind, "config", r.config, "planned", prepared.Planned)
	var sum *verdict.Summary
	err := s.guarded(func() (err error) {
		sum, err = prepared.Execute(ctx, func(ev campaign.Event) { r.feed.progress(ev.Counts, ev.Planned, ev.Result) })
		return err
	})
	if sum == nil { // a panic: the store does not know yet
		err = errors.Join(err, s.store.FinishCampaign(context.WithoutCancel(ctx), r.id, store.Interrupted, nil))
	}
	if sum != nil && err == nil && req.Baseline != "" {
		err = s.guarded(func() error { return s.countRegressions(context.WithoutCancel(ctx), p, sum, req) })
	}
	s.finish(r, sum, err)
}

// guarded turns a panic into an error: a campaign has no request to answer with one.
func (s *Server) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opt.Log.Error("a campaign panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = diag.Errorf(Internal, "this is a fault of gpuemu: please report it with the log (gpuemu daemon logs)",
				"internal error: %v", p)
		}
	}()
	return f()
}

// finish tells the followers how a campaign ended.
func (s *Server) finish(r *run, sum *verdict.Summary, err error) {
	r.feed.mu.Lock()
	if sum != nil {
		r.feed.counts, r.feed.plan = sum.Counts, sum.Planned
	}
	ev := r.feed.event(wire.EventDone)
	faulty := r.feed.faulty
	r.feed.mu.Unlock()
	if faulty != nil {
		s.opt.Log.Warn("failures were not sent to followers", "campaign", r.id, "error", faulty)
	}
	if sum != nil {
		if text, encodeErr := json.Marshal(sum); encodeErr == nil {
			ev.Summary = text
		} else if err == nil {
			err = fmt.Errorf("summary: %w", encodeErr)
		}
	}
	if err != nil {
		ev.Error = toWire(err)
		s.opt.Log.Warn("campaign failed", "campaign", r.id, "error", err)
	} else {
		s.opt.Log.Info("campaign ends", "campaign", r.id, "total", sum.Total, "failed", sum.Failed, "stopped", sum.Stopped)
	}
	s.forget(r.id) // before anybody hears of the end and asks for the campaign
	r.feed.finish(ev)
}

// run handles POST /v1/run: start and follow.
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	var req wire.RunRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	started, err := s.launch(r.Context(), &req)
	if err != nil {
		return err
	}
	defer started.feed.leave()
	out := newStream(w)
	first := started.feed.now().progress
	seed := wire.Seed(started.seed)
	first.Type, first.Seed = wire.EventStarted, &seed
	err = out.send(first.Type, first)
	if err == nil {
		err = started.feed.follow(followContext(r.Context(), started), out)
	}
	if err != nil && req.Attached {
		started.cancel(errCancelled)
	}
	return nil
}

// followContext is the context of a follower. When the daemon stops, the campaign ends first and its last event is
// sent; when the peer goes away, the follower ends at once.
func followContext(ctx context.Context, r *run) context.Context {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errStopping) {
			<-r.ended
			return
		}
		cancel(context.Cause(ctx))
	})
	return out
}

// start handles POST /v1/campaigns.
func (s *Server) start(w http.ResponseWriter, r *http.Request) error {
	var req wire.RunRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	started, err := s.launch(r.Context(), &req)
	if err != nil {
		return err
	}
	defer started.feed.leave()
	return sendJSON(w, http.StatusAccepted, &wire.RunStarted{Campaign: started.id, Seed: wire.Seed(started.seed),
		Planned: started.feed.now().progress.Planned})
}

// running returns a campaign that runs here, nil if it does not.
func (s *Server) running(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// events handles GET /v1/campaigns/{id}/events. A campaign that has ended has its last event only.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if here := s.running(id); here != nil && here.feed.join() {
		defer here.feed.leave()
		_ = here.feed.follow(followContext(r.Context(), here), newStream(w)) // whoever is gone needs no answer
		return nil
	}
	c, err := s.store.Campaign(r.Context(), id)
	if err != nil {
		return err
	}
	if c.State == store.Running {
		return diag.Errorf(store.CampaignTaken, "follow it there", "campaign %s runs in process %d", id, c.PID)
	}
	ev := wire.Event{Type: wire.EventDone, Campaign: id, Planned: c.Planned}
	if c.Summary != nil {
		ev.Done, ev.Passed, ev.Failed = c.Summary.Total, c.Summary.Passed, c.Summary.Failed
		ev.NotRun, ev.Undecided = c.Summary.NotRun, c.Summary.Undecided
		if ev.Summary, err = json.Marshal(c.Summary); err != nil {
			return err
		}
	}
	_ = newStream(w).send(ev.Type, ev)
	return nil
}

// campaign handles GET /v1/campaigns/{id}.
func (s *Server) campaign(r *http.Request) (*wire.CampaignInfo, error) {
	return s.campaignInfo(r.Context(), r.PathValue("id"))
}

func (s *Server) campaignInfo(ctx context.Context, id string) (*wire.CampaignInfo, error) {
	c, err := s.store.Campaign(ctx, id)
	if err != nil {
		return nil, err
	}
	info, err := s.describe(ctx, c)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// describe is a campaign of the store with what is known of it here.
func (s *Server) describe(ctx context.Context, c *store.Campaign) (*wire.CampaignInfo, error) {
	info := &wire.CampaignInfo{ID: c.ID, Kind: c.Kind, Project: c.Project, Config: c.ConfigPath, Seed: wire.Seed(c.Seed),
		Shard: c.Shard, State: c.State, Planned: c.Planned, Started: c.Started, PID: c.PID}
	if !c.Finished.IsZero() {
		info.Finished = &c.Finished
	}
	if c.Summary != nil {
		info.Done, info.Failed = c.Summary.Total, c.Summary.Failed
		text, err := json.Marshal(c.Summary)
		if err != nil {
			return nil, fmt.Errorf("summary of %s: %w", c.ID, err)
		}
		info.Summary = text
	}
	if here := s.running(c.ID); here != nil {
		now := here.feed.now().progress
		info.State, info.Done, info.Planned, info.Failed = store.Running, now.Done, now.Planned, now.Failed
		return info, nil
	}
	if c.Summary != nil {
		return info, nil
	}
	var err error // its process was killed, or is another one: what is stored counts
	info.Done, info.Failed, err = s.store.Stored(ctx, c.ID)
	return info, err
}

// campaigns handles GET /v1/campaigns.
func (s *Server) campaigns(r *http.Request) (*wire.CampaignsReply, error) {
	q := r.URL.Query()
	key, err := configParam(r)
	if err != nil {
		return nil, err
	}
	f := store.CampaignFilter{ConfigPath: key, State: q.Get("state"), Kind: q.Get("kind"), Limit: MaxListed}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, diag.Errorf(BadRequest, "send a positive integer", "limit is %q", cut(text, 40))
		}
		f.Limit = min(n, MaxListed)
	}
	list, err := s.store.Campaigns(r.Context(), f)
	if err != nil {
		return nil, err
	}
	reply := &wire.CampaignsReply{Campaigns: []wire.CampaignInfo{}}
	for i := range list {
		info, err := s.describe(r.Context(), &list[i])
		if err != nil {
			return nil, err
		}
		reply.Campaigns = append(reply.Campaigns, *info)
	}
	return reply, nil
}

// cancelCampaign handles DELETE /v1/campaigns/{id}: it returns when the campaign has ended. One that does not run is
// left as it is.
func (s *Server) cancelCampaign(r *http.Request) (*wire.CampaignInfo, error) {
	id := r.PathValue("id")
	if here := s.running(id); here != nil {
		here.cancel(errCancelled)
		select {
		case <-here.ended:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.campaignInfo(r.Context(), id)
}
