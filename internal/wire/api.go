package wire

import (
	"encoding/json"
	"time"
)

// This file implements the types of the HTTP API that concern whole runs: the daemon, campaigns, baselines, reports.
// A field json.RawMessage holds a JSON document of package verdict or report, which wire does not know.

// Ping is the answer to "are you there, and who are you".
type Ping struct {
	Version       string  `json:"version"`  // of the program
	Protocol      int     `json:"protocol"` // the constant Protocol
	UptimeSeconds float64 `json:"uptime_seconds"`
	PID           int     `json:"pid"`
	// IdleSeconds is how long a daemon that was started on demand waits for work before it ends; absent: it was started
	// by hand, and stays.
	IdleSeconds float64 `json:"idle_seconds,omitempty"`
}

// Status is what `gpuemu status` prints of a daemon.
type Status struct {
	Ping
	Socket    string           `json:"socket"`
	Home      string           `json:"home"`
	Store     StoreStatus      `json:"store"`
	Campaigns []CampaignStatus `json:"campaigns"` // running, oldest first
}

// StoreStatus describes the store of results.
type StoreStatus struct {
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Rows    int64  `json:"rows"`    // stored results
	Version int    `json:"version"` // of the schema
}

// CampaignStatus is how far a running campaign is.
type CampaignStatus struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`    // test, fuzz or ci
	Project string    `json:"project"` // name in gpuemu.toml
	Done    int       `json:"done"`
	Planned int       `json:"planned"`
	Failed  int       `json:"failed"`
	Started time.Time `json:"started"`
}

// Error is why a request was not answered, or why a campaign ended early.
type Error struct {
	Code    string `json:"code"` // stable; listed in docs/errors.md
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do next
	Pos     string `json:"pos,omitempty"`  // file:line:col
}

func (e *Error) Error() string {
	if e.Pos == "" {
		return e.Message
	}
	return e.Pos + ": " + e.Message
}

// RunRequest starts a campaign.
type RunRequest struct {
	Config string      `json:"config,omitempty"` // absolute path of gpuemu.toml; "" for none
	Dir    string      `json:"dir,omitempty"`    // the caller's working directory, absolute
	Python string      `json:"python,omitempty"` // interpreter that the caller resolved; "" lets the engine search
	Env    Environment `json:"env,omitzero"`
	Kind   string      `json:"kind"` // test, fuzz or ci

	Ops      []string `json:"ops,omitempty"` // none: all that are configured
	Quick    bool     `json:"quick,omitempty"`
	Thorough bool     `json:"thorough,omitempty"`
	Seed     *Seed    `json:"seed,omitempty"` // master seed; absent: the configuration's, or drawn for fuzz

	Iterations       int     `json:"iterations,omitempty"` // cases per op and dtype; 0: the configuration's
	FailFast         bool    `json:"fail_fast,omitempty"`
	TimeLimitSeconds float64 `json:"time_limit_seconds,omitempty"` // 0: none
	Parallel         int     `json:"parallel,omitempty"`           // 0: one per core
	Shard            string  `json:"shard,omitempty"`              // i/n, counted from 1; "": everything

	Values  string   `json:"values,omitempty"` // distribution
	Shapes  string   `json:"shapes,omitempty"` // strategy
	DTypes  []string `json:"dtypes,omitempty"`
	Layouts []string `json:"layouts,omitempty"`
	Ranks   []int    `json:"ranks,omitempty"` // drawn for tensors that may have any

	Dims map[string][]int `json:"dims,omitempty"` // the only sizes of these dimensions

	Resume           *string `json:"resume,omitempty"`   // campaign to continue; "" for the last; absent: a new one
	Baseline         string  `json:"baseline,omitempty"` // tag, or path of a JSON report
	FailOnRegression bool    `json:"fail_on_regression,omitempty"`

	// Attached cancels the campaign, keeping what is finished, when the connection of POST /v1/run is lost.
	Attached bool `json:"attached,omitempty"`
}

// RunStarted answers a RunRequest. What follows are Events of this campaign.
type RunStarted struct {
	Campaign string `json:"campaign"`
	Seed     Seed   `json:"seed"` // master seed in use
	Planned  int    `json:"planned"`
}

// EventType says what an Event tells.
type EventType string

// The types of events. The first of POST /v1/run is started; every stream ends with exactly one done.
const (
	EventStarted  EventType = "started"  // Seed is set
	EventProgress EventType = "progress" // counts have changed
	EventFailure  EventType = "failure"  // a case failed: Result is set
	EventHealth   EventType = "health"   // a remark on the campaign: Health is set
	EventDone     EventType = "done"     // Summary is set, and Error if it did not run to its end
)

// Event is one message of a campaign's stream. The counts are those of the whole campaign so far.
type Event struct {
	Type      EventType `json:"type"`
	Campaign  string    `json:"campaign"`
	Done      int       `json:"done"`
	Planned   int       `json:"planned"`
	Passed    int       `json:"passed"`
	Failed    int       `json:"failed"` // errors included
	NotRun    int       `json:"not_run"`
	Undecided int       `json:"undecided"`
	Seed      *Seed     `json:"seed,omitempty"` // master seed in use

	Result  json.RawMessage `json:"result,omitempty"`  // verdict.Result
	Health  json.RawMessage `json:"health,omitempty"`  // verdict.HealthCheck
	Summary json.RawMessage `json:"summary,omitempty"` // verdict.Summary
	Error   *Error          `json:"error,omitempty"`
}

// BaselineRequest stores the latest results and artifact metrics of a project under a tag.
type BaselineRequest struct {
	Config   string `json:"config,omitempty"`
	Tag      string `json:"tag"`
	Campaign string `json:"campaign,omitempty"` // "": the last complete one
	// Stored takes the latest verdict on each case instead, of clients and of all campaigns.
	Stored bool        `json:"stored,omitempty"`
	Env    Environment `json:"env,omitzero"` // of the caller: that of compilers
}

// BaselineReply says what a baseline holds.
type BaselineReply struct {
	Tag       string `json:"tag"`
	Campaign  string `json:"campaign"`
	Results   int    `json:"results"`
	Artifacts int    `json:"artifacts"`
	// Unread are the kernels that could not be looked at, each with the reason. The baseline does not have them.
	Unread []string `json:"unread,omitempty"`
}

// DiffRequest compares results with a baseline.
type DiffRequest struct {
	Config   string `json:"config,omitempty"`
	Dir      string `json:"dir,omitempty"`     // that relative paths are relative to
	Baseline string `json:"baseline"`          // tag, or path of a JSON report
	Against  string `json:"against,omitempty"` // campaign; "": the newest finished test or ci campaign

	Threshold *float64    `json:"threshold,omitempty"` // absent: the configuration's
	Env       Environment `json:"env,omitzero"`        // of the caller: that of compilers
}

// DiffReply is the comparison.
type DiffReply struct {
	Diff        json.RawMessage `json:"diff"` // report.Comparison
	Regressions int             `json:"regressions"`
}

// BaselineInfo is one stored baseline.
type BaselineInfo struct {
	Tag   string    `json:"tag"`
	Saved time.Time `json:"saved"`
}

// BaselinesReply lists the baselines of a project, newest first.
type BaselinesReply struct {
	Baselines []BaselineInfo `json:"baselines"`
}

// HealthLine is one remark on the store.
type HealthLine struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	OK    bool   `json:"ok"`
	Fix   string `json:"fix,omitempty"` // what to do where it is not
}

// HealthReply is what the store says about itself.
type HealthReply struct {
	Lines []HealthLine `json:"lines"`
}

// CampaignsRequest selects campaigns. Empty fields select all.
type CampaignsRequest struct {
	Config string `json:"config,omitempty"`
	State  string `json:"state,omitempty"` // running, finished, stopped or interrupted
	Kind   string `json:"kind,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 0: MaxListed of package daemon
}

// CampaignInfo is a campaign of the store, running or not.
type CampaignInfo struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Project  string          `json:"project,omitempty"`
	Config   string          `json:"config,omitempty"`
	Seed     Seed            `json:"seed"`
	Shard    string          `json:"shard,omitempty"`
	State    string          `json:"state"`
	Done     int             `json:"done"`
	Planned  int             `json:"planned"`
	Failed   int             `json:"failed"`
	Started  time.Time       `json:"started"`
	Finished *time.Time      `json:"finished,omitempty"`
	PID      int             `json:"pid,omitempty"`
	Summary  json.RawMessage `json:"summary,omitempty"` // verdict.Summary, once it has ended
}

// CampaignsReply lists campaigns, those that started last first.
type CampaignsReply struct {
	Campaigns []CampaignInfo `json:"campaigns"`
}

// Done answers a request that has nothing to tell.
type Done struct{}

// WorkEvent is one message of the stream of a long request, such as minimize: progress, and at the end either the reply
// or an error.
type WorkEvent struct {
	Type   EventType       `json:"type"` // progress or done
	Done   int             `json:"done"`
	Budget int             `json:"budget"`
	Reply  json.RawMessage `json:"reply,omitempty"` // of the request's own reply type
	Error  *Error          `json:"error,omitempty"`
}

// CalibrateRequest fits tolerances to kernels that are known to be right.
type CalibrateRequest struct {
	Config     string      `json:"config,omitempty"`
	Python     string      `json:"python,omitempty"`
	Env        Environment `json:"env,omitzero"`
	Op         string      `json:"op"`
	DType      string      `json:"dtype,omitempty"` // "": all that are configured
	Iterations int         `json:"iterations,omitempty"`
	Seed       *Seed       `json:"seed,omitempty"`
	Write      bool        `json:"write,omitempty"` // into gpuemu.toml
}

// CalibrateReply has one entry per dtype.
type CalibrateReply struct {
	Calibrations []Calibration `json:"calibrations"`
	Written      string        `json:"written,omitempty"` // path of the changed file
}

// Calibration is a fitted tolerance. False alarms were counted on the half of the cases that it was not fitted to.
type Calibration struct {
	Op             string  `json:"op"`
	DType          string  `json:"dtype"`
	ATol           float64 `json:"atol"`
	RTol           float64 `json:"rtol"`
	Fitted         int     `json:"fitted"`   // cases fitted to
	HeldOut        int     `json:"held_out"` // cases tried on
	FalseAlarms    int     `json:"false_alarms"`
	FalseAlarmRate float64 `json:"false_alarm_rate"`
	// Misses are planted errors, and what of them the tolerance would let pass in the held-out cases.
	Misses []PlantedError `json:"misses,omitempty"`
}

// PlantedError is an error of one relative size in every element.
type PlantedError struct {
	Error string  `json:"error"` // what such a kernel does, as "zeros" or "1 % off"
	Size  float64 `json:"size"`  // |error| / |want|
	// Below: it is missed where |want| is at most this. Absent: everywhere.
	Below *float64 `json:"below,omitempty"`
	Share float64  `json:"share"` // part of the held-out elements that are not zero where it is missed
}

// CoverageRequest asks what of the configuration the stored results exercised. The answer is the text itself.
type CoverageRequest struct {
	Config string `json:"config"`
	Format string `json:"format,omitempty"` // text, json or codecov; "": text
}

// ReportRequest makes a report of what is stored. It executes nothing. The answer is the report itself; the header
// ExitCodeHeader has the exit code that it deserves.
type ReportRequest struct {
	Config string `json:"config,omitempty"`
	Dir    string `json:"dir,omitempty"` // that relative paths are relative to
	Format string `json:"format"`        // text, json, junit or sarif

	// What it is about: a campaign, the results since some hours, or all of the project; else the newest campaign.
	Campaign   string  `json:"campaign,omitempty"`
	SinceHours float64 `json:"since_hours,omitempty"`
	All        bool    `json:"all,omitempty"`

	Baseline         string   `json:"baseline,omitempty"` // tag, or path of a JSON report
	FailOnRegression bool     `json:"fail_on_regression,omitempty"`
	Threshold        *float64 `json:"threshold,omitempty"` // absent: the configuration's

	IncludeLint      bool `json:"include_lint,omitempty"`
	IncludeArtifacts bool `json:"include_artifacts,omitempty"`

	Color   bool        `json:"color,omitempty"` // of text
	Verbose bool        `json:"verbose,omitempty"`
	Width   int         `json:"width,omitempty"` // columns of text; 0: no limit
	Env     Environment `json:"env,omitzero"`    // of the caller: that of compilers
}

// ExitCodeHeader is the header of a response that carries an exit code.
const ExitCodeHeader = "Gpuemu-Exit-Code"
