package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// projectText has a right op, a wrong one and one that a client executes; none needs Python.
const projectText = `
[project]
name = "trial"
[validation]
dtypes = ["float32"]
values = "normal"
[ci]
fuzz_iterations = 6
[ci.quick]
fuzz_iterations = 3
[[ops]]
name = "relu"
candidate = "builtin:relu"
[[ops]]
name = "wrong"
schema = "relu"
candidate = "builtin:silu"
reference = "builtin:relu"
[[ops]]
name = "theirs"
schema = "relu"
execution_mode = "client_side"
reference = "builtin:relu"
`

type fixture struct {
	*Server
	config string
	clock  atomic.Pointer[func() time.Time] // nil: the system's
}

// newFixture opens a server with a project of its own.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "gd") // short: sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fixture{config: filepath.Join(dir, "gpuemu.toml")}
	if err := os.WriteFile(f.config, []byte(projectText), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Server, err = New(t.Context(), Options{Home: filepath.Join(dir, "h"), Socket: filepath.Join(dir, "h", "s"),
		Version: "test", Now: f.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// now is the server's clock: the test's own where it has one. Requests that have been answered may still ask for it.
func (f *fixture) now() time.Time {
	if clock := f.clock.Load(); clock != nil {
		return (*clock)()
	}
	return time.Now()
}

// listening serves the socket and returns a client of it. The result of ListenAndServe is checked at the end.
func (f *fixture) listening(t testing.TB) *Client {
	t.Helper()
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { served <- f.ListenAndServe(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("ListenAndServe: %v", err)
		}
	})
	for {
		c, err := Dial(t.Context(), f.opt.Socket)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if diag.CodeOf(err) != Unreachable {
			t.Fatal(err)
		}
		select {
		case err := <-served:
			t.Fatalf("ListenAndServe: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// local is a client in process that leaves the server open.
func (f *fixture) local() *Client {
	return &Client{http: &http.Client{Transport: localTransport{f.Handler()}}, local: f.Server}
}

func seedOf(n uint64) *wire.Seed { s := wire.Seed(n); return &s }

// endless is a campaign that does not end by itself in the time of a test.
func (f *fixture) endless() *wire.RunRequest {
	return &wire.RunRequest{Config: f.config, Kind: "fuzz", Ops: []string{"relu"}, Seed: seedOf(7), Iterations: 5_000_000,
		Parallel: 1}
}

func wantCode(t *testing.T, err error, want diag.Code) {
	t.Helper()
	if got := diag.CodeOf(err); got != want {
		t.Errorf("error %v has code %q, want %q", err, got, want)
	}
}

// collect is an observer that keeps events.
type collect struct {
	mu   sync.Mutex
	list []wire.Event
}

func (c *collect) add(ev *wire.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, *ev)
}

func (c *collect) count(kind wire.EventType) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, ev := range c.list {
		if ev.Type == kind {
			n++
		}
	}
	return n
}

// TestSameInProcessAndOverSocket runs the same requests both ways: the answers are equal but for times and names.
func TestSameInProcessAndOverSocket(t *testing.T) {
	f := newFixture(t)
	clients := map[string]*Client{"socket": f.listening(t), "in process": f.local()}
	answers := map[string]string{}
	for name, c := range clients {
		var events collect
		req := &wire.RunRequest{Config: f.config, Kind: "test", Ops: []string{"relu", "wrong", "theirs"}, Attached: true}
		sum, err := c.Run(t.Context(), req, events.add)
		if err != nil {
			t.Fatalf("%s: Run: %v", name, err)
		}
		if sum.ExitCode() != 1 || sum.Total != 18 || sum.NotRun != 6 || sum.Failed == 0 || !sum.Complete {
			t.Errorf("%s: summary %+v", name, sum)
		}
		if got := events.count(wire.EventFailure); got != sum.Failed {
			t.Errorf("%s: %d failure events, want %d", name, got, sum.Failed)
		}
		if events.list[0].Type != wire.EventStarted || events.list[len(events.list)-1].Type != wire.EventDone ||
			events.count(wire.EventDone) != 1 {
			t.Errorf("%s: events do not begin with started and end with one done: %+v", name, events.list)
		}
		var doc bytes.Buffer
		exit, err := c.Report(t.Context(), &wire.ReportRequest{Config: f.config, Format: "json",
			Campaign: sum.Campaign}, &doc)
		if err != nil || exit != 1 {
			t.Fatalf("%s: Report: %d, %v", name, exit, err)
		}
		answers[name] = comparable(t, doc.Bytes())
		if got := c.Local(); got != (name == "in process") {
			t.Errorf("%s: Local() = %v", name, got)
		}
	}
	if answers["socket"] != answers["in process"] {
		t.Errorf("reports differ:\n%s\n%s", answers["socket"], answers["in process"])
	}
}

// comparable is a report without what differs between two runs.
func comparable(t *testing.T, doc []byte) string {
	t.Helper()
	d, err := report.Read(bytes.NewReader(doc), "report")
	if err != nil {
		t.Fatal(err)
	}
	d.Summary.Campaign, d.Summary.Started, d.Summary.Duration = "", time.Time{}, 0
	for i := range d.Results {
		r := &d.Results[i]
		r.Time, r.Duration, r.CandidateTime, r.ReferenceTime = time.Time{}, 0, 0, 0
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPingAndStatusWhileCampaignsRun(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	started := make(chan struct{}, 3)
	for i := range 3 {
		wg.Go(func() {
			req := f.endless()
			req.Seed = seedOf(uint64(i))
			sum, err := c.Run(ctx, req, func(ev *wire.Event) {
				if ev.Type == wire.EventStarted {
					started <- struct{}{}
				}
			})
			if err != nil || sum == nil || sum.Stopped != "cancelled" || sum.Complete {
				t.Errorf("cancelled run: %+v, %v", sum, err)
			}
		})
	}
	for range 3 {
		<-started
	}
	if _, err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	st, err := c.Status(t.Context())
	if err != nil || len(st.Campaigns) != 3 || st.Campaigns[0].Project != "trial" || st.Campaigns[0].Planned != 5_000_000 {
		t.Errorf("Status: %+v, %v", st, err)
	}
	cancel()
	wg.Wait()
	list, err := c.Campaigns(t.Context(), &wire.CampaignsRequest{Config: f.config, State: store.Interrupted})
	if err != nil || len(list) != 3 || list[0].Summary == nil {
		t.Errorf("Campaigns: %+v, %v", list, err)
	}
}

// TestResume: what was cancelled goes on where it was.
func TestResume(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	req := f.endless()
	req.Iterations = 60
	ctx, cancel := context.WithCancel(t.Context())
	sum, err := c.Run(ctx, req, func(ev *wire.Event) {
		if ev.Done > 0 {
			cancel()
		}
	})
	if err != nil || sum.Complete || sum.Total == 0 {
		t.Fatalf("first part: %+v, %v", sum, err)
	}
	// Nothing but the wish to continue has to be said again.
	req = &wire.RunRequest{Config: f.config, Kind: "fuzz", Resume: new(string)}
	_, err = c.Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "test", Resume: &sum.Campaign}, nil)
	wantCode(t, err, campaign.NotResumable)
	rest, err := c.Run(t.Context(), req, nil)
	if err != nil || !rest.Complete || rest.Campaign != sum.Campaign || rest.Total != 60 {
		t.Fatalf("second part: %+v, %v", rest, err)
	}
	_, err = c.Run(t.Context(), req, nil)
	wantCode(t, err, campaign.NotResumable)
}

// TestDetached: a campaign that is not attached outlives its connection; an attached one does not.
func TestDetached(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	for _, attached := range []bool{false, true} {
		req := f.endless()
		req.Attached = attached
		resp, err := c.send(t.Context(), http.MethodPost, "/v1/run", req)
		if err != nil {
			t.Fatal(err)
		}
		var id string
		err = readEvents(resp.Body, func(ev *wire.Event) error { id = ev.Campaign; return errEndOfStream })
		if !errors.Is(err, errEndOfStream) {
			t.Fatal(err)
		}
		here := f.running(id)
		resp.Body.Close()
		if attached {
			<-here.ended
			info, err := c.Campaign(t.Context(), id)
			if err != nil || info.State != store.Interrupted {
				t.Errorf("attached: %+v, %v, want interrupted", info, err)
			}
			continue
		}
		// Others can follow it, and cancel it.
		follow, err := c.send(t.Context(), http.MethodGet, "/v1/campaigns/"+id+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := c.Campaign(t.Context(), id)
		if err != nil || info.State != store.Running {
			t.Errorf("detached: %+v, %v, want running", info, err)
		}
		info, err = c.Cancel(t.Context(), id)
		if err != nil || info.State != store.Interrupted {
			t.Errorf("Cancel: %+v, %v, want interrupted", info, err)
		}
		var last wire.Event
		if err := readEvents(follow.Body, func(ev *wire.Event) error { last = *ev; return nil }); err != nil {
			t.Error(err)
		}
		follow.Body.Close()
		if last.Type != wire.EventDone || last.Summary == nil {
			t.Errorf("last event %+v, want done with a summary", last)
		}
		// One that has ended has its last event only.
		after, err := c.send(t.Context(), http.MethodGet, "/v1/campaigns/"+id+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(after.Body)
		after.Body.Close()
		if err != nil || strings.Count(string(text), "data: ") != 1 || !strings.Contains(string(text), `"type":"done"`) {
			t.Errorf("events after the end: %q, %v", text, err)
		}
	}
}

// TestStopDuringCampaign: the follower still gets the summary, the campaign is interrupted and can be resumed.
func TestStopDuringCampaign(t *testing.T) {
	f := newFixture(t)
	served := make(chan error, 1)
	go func() { served <- f.ListenAndServe(context.Background()) }()
	c := dialWhenReady(t, f.opt.Socket)
	defer c.Close()
	var id string
	sum, err := c.Run(t.Context(), f.endless(), func(ev *wire.Event) {
		if id == "" && ev.Done > 0 {
			id = ev.Campaign
			if err := c.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		}
	})
	if err != nil || sum == nil || sum.Total == 0 || sum.Stopped != "cancelled" {
		t.Errorf("Run: %+v, %v", sum, err)
	}
	if err := <-served; err != nil {
		t.Errorf("ListenAndServe: %v", err)
	}
	got, err := f.store.Campaign(t.Context(), id)
	if err != nil || got.State != store.Interrupted || got.Summary == nil {
		t.Errorf("campaign %+v, %v, want interrupted", got, err)
	}
	if _, err := os.Stat(f.opt.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	_, err = Dial(t.Context(), f.opt.Socket)
	wantCode(t, err, Unreachable)
}

func dialWhenReady(t *testing.T, socket string) *Client {
	t.Helper()
	for {
		c, err := Dial(t.Context(), socket)
		if err == nil {
			return c
		}
		if diag.CodeOf(err) != Unreachable {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSlowFollower: a follower that does not read holds nobody up.
func TestSlowFollower(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	req := &wire.RunRequest{Config: f.config, Kind: "fuzz", Ops: []string{"wrong"}, Seed: seedOf(3), Iterations: 100}
	resp, err := c.send(t.Context(), http.MethodPost, "/v1/run", req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for len(f.runIDs()) > 0 { // ends although nobody reads a byte
		time.Sleep(time.Millisecond)
	}
	failures, last := 0, wire.Event{}
	err = readEvents(resp.Body, func(ev *wire.Event) error {
		if ev.Type == wire.EventFailure {
			failures++
		}
		last = *ev
		return nil
	})
	if err != nil || last.Type != wire.EventDone || failures != last.Failed || failures < 50 {
		t.Errorf("%d failure events of %d, last %s, %v", failures, last.Failed, last.Type, err)
	}
}

func (f *fixture) runIDs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for id := range f.runs {
		ids = append(ids, id)
	}
	return ids
}

func TestRunRefusals(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	for name, tt := range map[string]struct {
		req  wire.RunRequest
		want diag.Code
	}{
		"kind":      {wire.RunRequest{Config: f.config, Kind: "dance"}, BadRequest},
		"both":      {wire.RunRequest{Config: f.config, Kind: "test", Quick: true, Thorough: true}, BadRequest},
		"relative":  {wire.RunRequest{Config: "gpuemu.toml", Kind: "test"}, BadRequest},
		"no config": {wire.RunRequest{Config: "/nonexistent/gpuemu.toml", Kind: "test"}, "config-not-found"},
		"op":        {wire.RunRequest{Config: f.config, Kind: "test", Ops: []string{"nothing"}}, campaign.UnknownOp},
		"shard":     {wire.RunRequest{Config: f.config, Kind: "test", Shard: "5/4"}, campaign.BadOptions},
		"dtype":     {wire.RunRequest{Config: f.config, Kind: "test", DTypes: []string{"float33"}}, BadRequest},
		"layout":    {wire.RunRequest{Config: f.config, Kind: "test", Layouts: []string{"round"}}, "tensor-layout"},
		"time":      {wire.RunRequest{Config: f.config, Kind: "test", TimeLimitSeconds: -1}, BadRequest},
		"nothing":   {wire.RunRequest{Kind: "test"}, campaign.NothingToRun},
		"tag":       {wire.RunRequest{Config: f.config, Kind: "test", Baseline: "none"}, store.NotFound},
		"resume":    {wire.RunRequest{Config: f.config, Kind: "test", Resume: new(string)}, campaign.NotResumable},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Run(t.Context(), &tt.req, nil)
			wantCode(t, err, tt.want)
		})
	}
	if n := f.slots; n != 0 {
		t.Errorf("%d slots are taken after refused runs", n)
	}
}

func TestErrorsKeepTheirParts(t *testing.T) {
	f := newFixture(t)
	if err := os.WriteFile(f.config, []byte("[project]\nname = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := f.local().Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "test"}, nil)
	var e *diag.Error
	if !errors.As(err, &e) || e.Pos.File != f.config || e.Pos.Line != 2 || e.Pos.Col == 0 || e.Hint == "" ||
		e.Code != "config-wrong-type" {
		t.Errorf("error %#v", err)
	}
	for _, text := range []string{"", "a.toml", "a.toml:3", "a.toml:3:14", "C:/x.toml:3:14", "a:b:3"} {
		if got := parsePos(text).String(); got != text {
			t.Errorf("parsePos(%q) = %q", text, got)
		}
	}
	wrapped := fmt.Errorf("op %q: %w", "x", diag.Errorf(BadRequest, "hint", "msg"))
	if got := toWire(wrapped); got.Message != `op "x": msg` || got.Code != string(BadRequest) || got.Hint != "hint" {
		t.Errorf("toWire(%v) = %+v", wrapped, got)
	}
	if got := toWire(errors.New("x")); got.Code != string(Internal) {
		t.Errorf("toWire of a plain error = %+v", got)
	}
}

func TestBaselineDiffReport(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	ctx := t.Context()
	_, err := c.SaveBaseline(ctx, &wire.BaselineRequest{Config: f.config, Tag: "main"})
	wantCode(t, err, NoCampaign)
	_, err = c.Report(ctx, &wire.ReportRequest{Config: f.config}, io.Discard)
	wantCode(t, err, NoCampaign)
	run := func(req *wire.RunRequest) *verdict.Summary {
		t.Helper()
		req.Config, req.Kind = f.config, "ci"
		sum, err := c.Run(ctx, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := run(&wire.RunRequest{})
	saved, err := c.SaveBaseline(ctx, &wire.BaselineRequest{Config: f.config, Tag: "main"})
	if err != nil || saved.Campaign != first.Campaign || saved.Results != first.Total {
		t.Fatalf("SaveBaseline: %+v, %v", saved, err)
	}
	_, err = c.SaveBaseline(ctx, &wire.BaselineRequest{Config: f.config, Tag: "x.json"})
	wantCode(t, err, BadRequest)
	tags, err := c.Baselines(ctx, f.config)
	if err != nil || len(tags) != 1 || tags[0].Tag != "main" {
		t.Errorf("Baselines: %+v, %v", tags, err)
	}
	d, err := c.Diff(ctx, &wire.DiffRequest{Config: f.config, Baseline: "main"})
	if err != nil || d.Common != first.Total || d.Regressed != 0 || d.Name != "main" {
		t.Errorf("Diff: %+v, %v", d, err)
	}
	_, err = c.Diff(ctx, &wire.DiffRequest{Config: f.config, Baseline: "other"})
	wantCode(t, err, store.NotFound)

	// The right op becomes wrong: that is a regression, and the exit code says so where it is asked for.
	text := strings.Replace(projectText, `candidate = "builtin:relu"`, `candidate = "builtin:silu"`, 1)
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	second := run(&wire.RunRequest{Ops: []string{"relu"}, Baseline: "main", FailOnRegression: true})
	if second.Regressions == 0 {
		t.Errorf("no regressions: %+v", second)
	}
	for _, format := range []string{"text", "json", "junit"} {
		var out bytes.Buffer
		exit, err := c.Report(ctx, &wire.ReportRequest{Config: f.config, Format: format, Baseline: "main",
			FailOnRegression: true}, &out)
		if err != nil || exit != 1 || !strings.Contains(out.String(), "egression") && format != "junit" || out.Len() == 0 {
			t.Errorf("Report %s: %d, %v:\n%s", format, exit, err, out.String())
		}
	}
	exit, err := c.Report(ctx, &wire.ReportRequest{Config: f.config, Format: "text", All: true, Baseline: "gone.json",
		Dir: "/"}, io.Discard)
	if err != nil || exit != 1 {
		t.Errorf("Report of all, with a baseline that does not exist: %d, %v", exit, err)
	}
	_, err = c.Report(ctx, &wire.ReportRequest{Config: f.config, Format: "pdf"}, io.Discard)
	wantCode(t, err, BadRequest)
	for _, format := range []string{"text", "json", "codecov"} {
		var out bytes.Buffer
		if err := c.Coverage(ctx, f.config, format, &out); err != nil || out.Len() == 0 {
			t.Errorf("Coverage %s: %v", format, err)
		}
	}
	if lines, err := c.Health(ctx); err != nil || len(lines) < 3 || !lines[0].OK {
		t.Errorf("Health: %+v, %v", lines, err)
	}
}

func TestReportOfRunningCampaign(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	_, err := c.Run(t.Context(), f.endless(), func(ev *wire.Event) {
		if ev.Type != wire.EventProgress || ev.Done == 0 {
			return
		}
		var out bytes.Buffer
		exit, err := c.Report(t.Context(), &wire.ReportRequest{Config: f.config, Format: "json"}, &out)
		if err != nil || exit != 3 {
			t.Errorf("Report: %d, %v", exit, err)
		}
		if _, err := report.Read(&out, "report"); err != nil {
			t.Error(err)
		}
		if _, err := c.Cancel(t.Context(), ev.Campaign); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReproduceMinimizeTensors(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	for name, c := range map[string]*Client{"socket": f.listening(t), "in process": f.local()} {
		sum, err := c.Run(ctx, &wire.RunRequest{Config: f.config, Kind: "fuzz", Ops: []string{"wrong"}, Seed: seedOf(9),
			Iterations: 5}, nil)
		if err != nil || sum.Failed == 0 {
			t.Fatalf("%s: Run: %+v, %v", name, sum, err)
		}
		list, err := c.Failures(ctx, &wire.FailuresRequest{Config: f.config, Op: "wrong", Limit: 2, SinceHours: 1})
		if err != nil || len(list) != 2 {
			t.Fatalf("%s: Failures: %d, %v", name, len(list), err)
		}
		seed := (*wire.Seed)(&list[0].Seed)
		got, err := c.Reproduce(ctx, &wire.ReproduceRequest{Config: f.config, Seed: seed})
		if err != nil || !got.StillFails || !got.Executable || got.Result == nil || got.Stored == nil ||
			got.Case != list[0].Case {
			t.Errorf("%s: Reproduce: %+v, %v", name, got, err)
		}
		done := 0
		small, err := c.Minimize(ctx, &wire.MinimizeRequest{Config: f.config, Seed: *seed, MaxIters: 50},
			func(n, _ int) { done = n })
		if err != nil || !small.Minimized.Verdict.Failed() || small.Case != small.Minimized.Case || small.Executed == 0 ||
			small.Original.Case != list[0].Case {
			t.Errorf("%s: Minimize: %+v, %v (progress %d)", name, small, err, done)
		}
		var image bytes.Buffer
		if err := c.Tensors(ctx, &wire.TensorsRequest{Config: f.config, Case: list[0].Case}, &image); err != nil {
			t.Fatalf("%s: Tensors: %v", name, err)
		}
		named, meta, err := tensor.ParseSafetensors(image.Bytes())
		if err != nil || len(named) != 1 || meta["case"] != list[0].Case {
			t.Errorf("%s: Tensors: %v, %v, %v", name, named, meta, err)
		}
		_, err = c.Reproduce(ctx, &wire.ReproduceRequest{Config: f.config, Seed: seedOf(1)})
		wantCode(t, err, campaign.UnknownCase)
		_, err = c.Minimize(ctx, &wire.MinimizeRequest{Config: f.config, Seed: 1}, nil)
		wantCode(t, err, campaign.UnknownCase)
		_, err = c.Minimize(ctx, &wire.MinimizeRequest{Config: f.config, Seed: *seed, Strategy: "luck"}, nil)
		wantCode(t, err, campaign.BadOptions)
	}
}

func TestCalibrate(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	reply, err := c.Calibrate(t.Context(), &wire.CalibrateRequest{Config: f.config, Op: "relu", Iterations: 40,
		Write: true}, nil)
	if err != nil || len(reply.Calibrations) != 1 || reply.Written != f.config || reply.Calibrations[0].HeldOut != 20 {
		t.Fatalf("Calibrate: %+v, %v", reply, err)
	}
	text, err := os.ReadFile(f.config)
	if err != nil || !strings.Contains(string(text), "tolerances") {
		t.Errorf("gpuemu.toml: %s, %v", text, err)
	}
	_, err = c.Calibrate(t.Context(), &wire.CalibrateRequest{Config: f.config, Op: "theirs", Iterations: 40}, nil)
	wantCode(t, err, campaign.NotExecutable)
}

func TestClientSide(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]*Client{"socket": f.listening(t), "in process": f.local()} {
		cases := 0
		req := &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 5, Start: 2, Count: 6}
		err := c.Cases(t.Context(), req, func(h *wire.CaseHeader, inputs []tensor.Named) error {
			cases++
			if h.Index != cases+1 || len(inputs) != 1 {
				t.Errorf("%s: case %d has index %d and %d inputs", name, cases, h.Index, len(inputs))
			}
			for i, want := range []verdict.Verdict{verdict.Pass, verdict.Fail} {
				out := relu(inputs[0].Tensor)
				if i == 1 {
					out = tensor.New(out.DType, out.Shape) // zeros
				}
				res, err := c.Submit(t.Context(), &wire.SubmitHeader{Config: f.config, Case: h.Case}, nil,
					[]tensor.Named{{Name: "output", Tensor: out}})
				if err != nil {
					return err
				}
				if out.Shape.Elems() > 8 && res.Verdict != want || res.Candidate != "client" {
					t.Errorf("%s: %s: %s: %s, want %s", name, h.Case, res.Verdict, res.Message, want)
				}
			}
			return nil
		})
		if err != nil || cases != 6 {
			t.Errorf("%s: %d cases, %v", name, cases, err)
		}
		// A refused submission has its code, though the body is not read to its end.
		big := []tensor.Named{{Name: "y", Tensor: tensor.New(dtype.Float32, tensor.MustShape(1<<20))}}
		_, err = c.Submit(t.Context(), &wire.SubmitHeader{Config: "relative", Op: "theirs"}, nil, big)
		wantCode(t, err, BadRequest)
		_, err = c.Submit(t.Context(), &wire.SubmitHeader{Config: f.config, Op: "theirs"}, nil, big)
		wantCode(t, err, campaign.BadOptions)
		req.Count = 0
		wantCode(t, c.Cases(t.Context(), req, nil), BadRequest)
	}
	if f.held != 0 {
		t.Errorf("%d bytes are held after all submissions", f.held)
	}
}

func relu(in *tensor.Tensor) *tensor.Tensor {
	values := in.Float64s()
	for i := range values {
		values[i] = max(values[i], 0)
	}
	out := tensor.New(in.DType, in.Shape)
	out.SetFloat64s(values)
	return out
}

// BenchmarkSubmit is a round trip over the socket: tensors in, verdict out.
func BenchmarkSubmit(b *testing.B) {
	for _, mib := range []int{1, 64} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			f := newFixture(b)
			c := f.listening(b)
			in := tensor.New(dtype.Float32, tensor.MustShape(1024, mib<<18/1024/2)) // input and output have half each
			inputs := []tensor.Named{{Name: "input", Tensor: in}}
			b.SetBytes(int64(mib) << 20)
			for b.Loop() {
				res, err := c.Submit(b.Context(), &wire.SubmitHeader{Config: f.config, Op: "theirs"}, inputs,
					[]tensor.Named{{Name: "output", Tensor: in}})
				if err != nil || res.Verdict != verdict.Pass {
					b.Fatalf("%+v, %v", res, err)
				}
			}
		})
	}
}
