// This file implements the client: one method per request, over a socket or in process.

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/inspect"
	"gpuemu/internal/report"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// dialTimeout is how long a daemon may take to answer the first ping: it answers at once even while it works.
const dialTimeout = time.Second

// Client sends requests to a daemon. It may be used by several goroutines.
type Client struct {
	http  *http.Client
	local *Server // nil: a daemon behind a socket
	ping  *wire.Ping
}

// Dial connects to the daemon on a socket and pings it. The error has code Unreachable if nobody answers within a
// second.
func Dial(ctx context.Context, socket string) (*Client, error) {
	if err := checkSocketOwner(socket); err != nil {
		return nil, err
	}
	c := &Client{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, err
			}
			if _, err := checkPeer(conn); err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		},
		DisableCompression: true,
	}}}
	pingCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ping, err := c.Ping(pingCtx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case diag.CodeOf(err) == ForeignSocket:
		return nil, err
	default:
		return nil, unreachable(socket, err)
	}
	if c.ping = ping; ping.Protocol != wire.Protocol {
		c.Close()
		return nil, diag.Errorf(OtherVersion, "gpuemu daemon stop, with the gpuemu that started it, ends it",
			"the daemon on %s is gpuemu %s and speaks protocol %d, this is protocol %d", socket, ping.Version, ping.Protocol,
			wire.Protocol)
	}
	return c, nil
}

func unreachable(socket string, err error) error {
	var reason syscall.Errno // the rest of the text says once more where and how
	if errors.As(err, &reason) {
		err = reason
	}
	return diag.Errorf(Unreachable, "gpuemu daemon start starts one; commands work without it",
		"no daemon answers on %s: %w", socket, err)
}

// checkSocketOwner refuses what another user put at the place of the socket.
func checkSocketOwner(socket string) error {
	info, err := os.Lstat(socket)
	if err != nil {
		return unreachable(socket, err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return unreachable(socket, errors.New("it is no socket"))
	}
	if uid, known := ownerOf(info); known && uid != os.Geteuid() {
		return foreign(socket, uid)
	}
	return nil
}

func foreign(what string, uid int) error {
	return diag.Errorf(ForeignSocket, "set GPUEMU_SOCKET or GPUEMU_HOME to a place of your own",
		"%s belongs to another user (%d, you are %d)", what, uid, os.Geteuid())
}

// InProcess returns a client of a server in this process. Closing it closes the server.
func InProcess(s *Server) *Client {
	return &Client{http: &http.Client{Transport: localTransport{s.Handler()}}, local: s}
}

// Daemon is what the daemon behind the socket said of itself when it was dialed; nil: the client works in this process.
func (c *Client) Daemon() *wire.Ping { return c.ping }

// Local reports whether the client works in this process.
func (c *Client) Local() bool { return c.local != nil }

// Close ends the connections; a client in process closes its server.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	if c.local != nil {
		return c.local.Close()
	}
	return nil
}

// send performs one request and returns the response if its status says success.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", path, err)
		}
		reader = bytes.NewReader(text)
	}
	return c.sendBody(ctx, method, path, jsonType, reader)
}

func (c *Client) sendBody(ctx context.Context, method, path, mediaType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://gpuemu"+path, body)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", mediaType)
		if sized, ok := body.(*sizedBody); ok {
			req.ContentLength = sized.size
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, lost(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.failure(resp)
}

// failure reads the error of a response.
func (c *Client) failure(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON))
	var e wire.Error
	if err != nil || json.Unmarshal(text, &e) != nil || e.Code == "" {
		return diag.Errorf(Internal, "look at the log of the daemon: gpuemu daemon logs", "the daemon answered %s: %q",
			resp.Status, cut(string(text), 200))
	}
	return fromWire(&e)
}

// lost says what a broken connection means. Errors of the context stay what they are.
func lost(ctx context.Context, err error) error {
	var known *diag.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return err
	}
	return diag.Errorf(Lost, "look at the log of the daemon: gpuemu daemon logs",
		"the connection to the daemon is lost: %w", err)
}

// call performs a request with a JSON reply.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(T)
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, lost(ctx, err)
	}
	return out, nil
}

// copyTo performs a request whose reply is a text or an image.
func (c *Client) copyTo(ctx context.Context, path string, body any, w io.Writer) (http.Header, error) {
	resp, err := c.send(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &keptError{w: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if out.err != nil {
			return nil, out.err
		}
		return nil, lost(ctx, err)
	}
	return resp.Header, nil
}

// keptError tells errors of the destination from errors of the connection.
type keptError struct {
	w   io.Writer
	err error
}

func (k *keptError) Write(b []byte) (int, error) {
	n, err := k.w.Write(b)
	if err != nil {
		k.err = err
	}
	return n, err
}

// Ping asks whether the daemon is there.
func (c *Client) Ping(ctx context.Context) (*wire.Ping, error) {
	return call[wire.Ping](ctx, c, http.MethodGet, "/v1/ping", nil)
}

// Status says what the daemon is doing.
func (c *Client) Status(ctx context.Context) (*wire.Status, error) {
	return call[wire.Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Shutdown asks the daemon to end. Running campaigns are interrupted; what they finished is kept.
func (c *Client) Shutdown(ctx context.Context) error {
	_, err := call[wire.Done](ctx, c, http.MethodPost, "/v1/shutdown", nil)
	return err
}

// Report writes a report of what is stored and returns the exit code that it deserves.
func (c *Client) Report(ctx context.Context, req *wire.ReportRequest, w io.Writer) (exit int, err error) {
	header, err := c.copyTo(ctx, "/v1/report", req, w)
	if err != nil {
		return 0, err
	}
	exit, err = strconv.Atoi(header.Get(wire.ExitCodeHeader))
	if err != nil {
		return 0, diag.Errorf(Internal, "", "the daemon's report has no exit code: %w", err)
	}
	return exit, nil
}

// Tensors writes the inputs of a case as a safetensors image.
func (c *Client) Tensors(ctx context.Context, req *wire.TensorsRequest, w io.Writer) error {
	_, err := c.copyTo(ctx, "/v1/tensors", req, w)
	return err
}

// Coverage writes what of a configuration the stored results exercised: text, json or codecov.
func (c *Client) Coverage(ctx context.Context, config, format string, w io.Writer) error {
	_, err := c.copyTo(ctx, "/v1/coverage", &wire.CoverageRequest{Config: config, Format: format}, w)
	return err
}

// ReproduceReply is what came out of executing a case again.
type ReproduceReply struct {
	Case       string          // canonical text
	Result     *verdict.Result // nil where the case cannot be executed here
	Stored     *verdict.Result // nil where it was never stored
	StillFails bool
	Executable bool
	Others     []string // texts of other stored cases with the same seed
}

// Reproduce executes a case again and stores nothing.
func (c *Client) Reproduce(ctx context.Context, req *wire.ReproduceRequest) (*ReproduceReply, error) {
	got, err := call[wire.ReproduceReply](ctx, c, http.MethodPost, "/v1/reproduce", req)
	if err != nil {
		return nil, err
	}
	out := &ReproduceReply{Case: got.Case, StillFails: got.StillFails, Executable: got.Executable}
	for _, other := range got.Others {
		out.Others = append(out.Others, other.Case)
	}
	return out, errors.Join(decode(got.Result, &out.Result), decode(got.Stored, &out.Stored))
}

// decode reads a document of the domain; where there is none, *into stays nil.
func decode[T any](raw json.RawMessage, into **T) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	value := new(T)
	if err := json.Unmarshal(raw, value); err != nil {
		return diag.Errorf(Internal, "", "the daemon sent a %T that cannot be read: %w", value, err)
	}
	*into = value
	return nil
}

// MinimizeReply is the case before and after.
type MinimizeReply struct {
	Original  *verdict.Result // as it fails now
	Minimized *verdict.Result // stored under a seed of its own
	Case      string          // of Minimized
	Portable  string          // text of the smallest case that replays without a store, "" where there is none
	Executed  int
	Unchanged bool // nothing smaller fails
}

// Minimize shrinks a failing case. progress may be nil.
func (c *Client) Minimize(
	ctx context.Context, req *wire.MinimizeRequest, progress func(done, budget int),
) (*MinimizeReply, error) {
	got, err := work[wire.MinimizeReply](ctx, c, "/v1/minimize", req, progress)
	if err != nil {
		return nil, err
	}
	out := &MinimizeReply{Case: got.Case, Portable: got.Portable, Executed: got.Executed, Unchanged: got.Unchanged}
	return out, errors.Join(decode(got.Original, &out.Original), decode(got.Minimized, &out.Minimized))
}

// CalibrateReply has one entry per dtype.
type CalibrateReply = wire.CalibrateReply

// Calibrate fits tolerances to a kernel that is right. progress may be nil.
func (c *Client) Calibrate(
	ctx context.Context, req *wire.CalibrateRequest, progress func(done, total int),
) (*CalibrateReply, error) {
	return work[wire.CalibrateReply](ctx, c, "/v1/calibrate", req, progress)
}

// Failures lists stored failures, newest first.
func (c *Client) Failures(ctx context.Context, req *wire.FailuresRequest) ([]verdict.Result, error) {
	got, err := call[struct{ Results []verdict.Result }](ctx, c, http.MethodPost, "/v1/failures", req)
	if err != nil {
		return nil, err
	}
	return got.Results, nil
}

// MarkedFailures lists stored failures, newest first, and says of each whether its case passed later.
func (c *Client) MarkedFailures(
	ctx context.Context, req *wire.FailuresRequest,
) (list []verdict.Result, fixed []int, err error) {
	got, err := call[struct {
		Results []verdict.Result
		Fixed   []int
	}](ctx, c, http.MethodPost, "/v1/failures", req)
	if err != nil {
		return nil, nil, err
	}
	return got.Results, got.Fixed, nil
}

// ClearFailures forgets stored failures of a project and returns how many there were.
func (c *Client) ClearFailures(ctx context.Context, req *wire.ClearRequest) (int, error) {
	got, err := call[wire.ClearReply](ctx, c, http.MethodPost, "/v1/failures/clear", req)
	if err != nil {
		return 0, err
	}
	return got.Cleared, nil
}

// SaveBaseline stores the results of a campaign under a tag.
func (c *Client) SaveBaseline(ctx context.Context, req *wire.BaselineRequest) (*wire.BaselineReply, error) {
	return call[wire.BaselineReply](ctx, c, http.MethodPost, "/v1/baselines", req)
}

// Baselines lists the baselines of a project, newest first.
func (c *Client) Baselines(ctx context.Context, config string) ([]wire.BaselineInfo, error) {
	got, err := call[wire.BaselinesReply](ctx, c, http.MethodGet, "/v1/baselines?"+query("config", config), nil)
	if err != nil {
		return nil, err
	}
	return got.Baselines, nil
}

// Diff compares the newest campaign with a baseline.
func (c *Client) Diff(ctx context.Context, req *wire.DiffRequest) (*report.Comparison, error) {
	got, err := call[wire.DiffReply](ctx, c, http.MethodPost, "/v1/diff", req)
	if err != nil {
		return nil, err
	}
	var out *report.Comparison
	return out, decode(got.Diff, &out)
}

// Lint holds compiled kernels to their policy.
func (c *Client) Lint(ctx context.Context, req *wire.LintRequest) (*inspect.Document, error) {
	got, err := call[wire.LintReply](ctx, c, http.MethodPost, "/v1/lint", req)
	if err != nil {
		return nil, err
	}
	var out *inspect.Document
	err = decode(got.Lint, &out)
	return out, err
}

// Health says how the store is.
func (c *Client) Health(ctx context.Context) ([]wire.HealthLine, error) {
	got, err := call[wire.HealthReply](ctx, c, http.MethodGet, "/v1/health", nil)
	if err != nil {
		return nil, err
	}
	return got.Lines, nil
}

// Campaigns lists campaigns, newest first.
func (c *Client) Campaigns(ctx context.Context, req *wire.CampaignsRequest) ([]wire.CampaignInfo, error) {
	path := "/v1/campaigns?" + query("config", req.Config, "state", req.State, "kind", req.Kind)
	if req.Limit != 0 {
		path += "&limit=" + strconv.Itoa(req.Limit)
	}
	got, err := call[wire.CampaignsReply](ctx, c, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return got.Campaigns, nil
}

// Campaign returns one campaign, running or not.
func (c *Client) Campaign(ctx context.Context, id string) (*wire.CampaignInfo, error) {
	return call[wire.CampaignInfo](ctx, c, http.MethodGet, "/v1/campaigns/"+url.PathEscape(id), nil)
}

// Cancel ends a running campaign. What it finished is kept, and it can be resumed.
func (c *Client) Cancel(ctx context.Context, id string) (*wire.CampaignInfo, error) {
	return call[wire.CampaignInfo](ctx, c, http.MethodDelete, "/v1/campaigns/"+url.PathEscape(id), nil)
}
