// This file implements the route table, and what stands in front of every handler.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/wire"
)

// Media types of bodies.
const (
	jsonType    = "application/json"
	eventType   = "text/event-stream"
	textType    = "text/plain; charset=utf-8"
	tensorsType = "application/vnd.safetensors"
	casesType   = "application/vnd.gpuemu.cases"
	submitType  = "application/vnd.gpuemu.submission"
	launchType  = "application/vnd.gpuemu.launch"

	emulationType = "application/vnd.gpuemu.emulation"
)

// maxJSON is the largest JSON body of a request. The largest that makes sense is a schema or a list of ops, both of
// which fit many times.
const maxJSON = 16 << 20

const (
	// smallJSON is the size of bodies that nobody counts.
	smallJSON = 64 << 10
	// jsonBytes is how many bytes are in memory for one of a JSON body: "[],[],…" has a slice for three of them.
	jsonBytes = 16
)

// route is one line of the API: what the mux and the OpenAPI document are made of.
type route struct {
	method, path string
	summary      string
	query        []param
	request      any    // a value of the type of the JSON body; nil: none
	requestType  string // media type of the body where it is not JSON
	response     any    // a value of the type of the JSON reply, or of the data of an event
	responseType string // media type of the reply; "": JSON
	status       int    // of success; 0: 200
	handle       func(s *Server, w http.ResponseWriter, r *http.Request) error
}

// param is a parameter in the query.
type param struct{ name, what string }

// routes is the API.
func routes() []route {
	return []route{
		{method: "GET", path: "/v1/ping", summary: "Are you there",
			response: wire.Ping{}, handle: get((*Server).ping)},
		{method: "GET", path: "/v1/status", summary: "What the daemon is doing",
			response: wire.Status{}, handle: get((*Server).status)},
		{method: "POST", path: "/v1/shutdown",
			summary:  "End the daemon; running campaigns are interrupted, their results kept",
			response: wire.Done{}, handle: get((*Server).shutdown)},
		{method: "GET", path: "/v1/health", summary: "How the store is",
			response: wire.HealthReply{}, handle: get((*Server).health)},
		{method: "GET", path: "/v1/openapi.json", summary: "This document",
			response: json.RawMessage{}, handle: (*Server).openAPI},

		{method: "POST", path: "/v1/run", summary: "Start a campaign and follow its events",
			request: wire.RunRequest{}, response: wire.Event{}, responseType: eventType, handle: (*Server).run},
		{method: "POST", path: "/v1/campaigns", summary: "Start a campaign and return at once", status: http.StatusAccepted,
			request: wire.RunRequest{}, response: wire.RunStarted{}, handle: (*Server).start},
		{method: "GET", path: "/v1/campaigns", summary: "Campaigns, those that started last first",
			query: []param{{"config", "absolute path of gpuemu.toml; without it those of all projects"},
				{"state", "running, finished, stopped or interrupted"}, {"kind", "test, fuzz or ci"},
				{"limit", "how many at most"}},
			response: wire.CampaignsReply{}, handle: get((*Server).campaigns)},
		{method: "GET", path: "/v1/campaigns/{id}", summary: "One campaign",
			response: wire.CampaignInfo{}, handle: get((*Server).campaign)},
		{method: "DELETE", path: "/v1/campaigns/{id}", summary: "Cancel a running campaign; what is finished is kept",
			response: wire.CampaignInfo{}, handle: get((*Server).cancelCampaign)},
		{method: "GET", path: "/v1/campaigns/{id}/events", summary: "Follow the events of a campaign from its beginning",
			response: wire.Event{}, responseType: eventType, handle: (*Server).events},

		{method: "POST", path: "/v1/report", summary: "Report of stored results: text, JSON or JUnit XML",
			request: wire.ReportRequest{}, responseType: textType, handle: (*Server).report},
		{method: "POST", path: "/v1/coverage", summary: "What of a configuration the stored results exercised",
			request: wire.CoverageRequest{}, responseType: textType, handle: (*Server).coverage},
		{method: "POST", path: "/v1/failures", summary: "Stored failures, newest first",
			request: wire.FailuresRequest{}, response: wire.FailuresReply{}, handle: post((*Server).failures)},
		{method: "POST", path: "/v1/failures/clear", summary: "Forget stored failures of a project",
			request: wire.ClearRequest{}, response: wire.ClearReply{}, handle: post((*Server).clear)},
		{method: "POST", path: "/v1/results", summary: "Stored results, newest first",
			request: wire.ResultsRequest{}, response: wire.FailuresReply{}, handle: post((*Server).results)},
		{method: "POST", path: "/v1/baselines", summary: "Store the results of a campaign under a tag",
			request: wire.BaselineRequest{}, response: wire.BaselineReply{}, handle: post((*Server).saveBaseline)},
		{method: "GET", path: "/v1/baselines", summary: "Baselines of a project, newest first",
			query:    []param{{"config", "absolute path of gpuemu.toml"}},
			response: wire.BaselinesReply{}, handle: get((*Server).baselines)},
		{method: "POST", path: "/v1/diff", summary: "Compare a campaign with a baseline",
			request: wire.DiffRequest{}, response: wire.DiffReply{}, handle: post((*Server).diff)},

		{method: "POST", path: "/v1/lint", summary: "Hold compiled kernels to their policy, and store their metrics",
			request: wire.LintRequest{}, response: wire.LintReply{}, handle: post((*Server).lint)},
		{method: "GET", path: "/v1/artifacts", summary: "What is stored of a project's compiled kernels",
			query:    []param{{"config", "absolute path of gpuemu.toml"}},
			response: wire.ArtifactsReply{}, handle: get((*Server).artifacts)},
		{method: "GET", path: "/v1/artifacts/{kernel}", summary: "What is stored of one compiled kernel, with its PTX",
			query:    []param{{"config", "absolute path of gpuemu.toml"}},
			response: wire.ArtifactInfo{}, handle: get((*Server).artifact)},

		{method: "POST", path: "/v1/emulate", summary: "Execute one launch of a compiled kernel on the CPU",
			requestType: launchType, responseType: emulationType, handle: (*Server).emulate},
		{method: "POST", path: "/v1/compile", summary: "Compile a CUDA C++ source to PTX",
			request: wire.CompileRequest{}, response: wire.CompileReply{}, handle: post((*Server).compile)},

		{method: "POST", path: "/v1/reproduce", summary: "Execute a case again",
			request: wire.ReproduceRequest{}, response: wire.ReproduceReply{}, handle: post((*Server).reproduce)},
		{method: "POST", path: "/v1/tensors", summary: "Inputs of a case",
			request: wire.TensorsRequest{}, responseType: tensorsType, handle: (*Server).tensors},
		{method: "POST", path: "/v1/minimize", summary: "Find the smallest case that fails in the same way",
			request: wire.MinimizeRequest{}, response: wire.WorkEvent{}, responseType: eventType, handle: (*Server).minimize},
		{method: "POST", path: "/v1/shrink", summary: "The next simpler case for a client to try",
			request: wire.ShrinkRequest{}, response: wire.ShrinkReply{}, handle: post((*Server).shrinkStep)},
		{method: "POST", path: "/v1/calibrate", summary: "Fit tolerances to a kernel that is right",
			request: wire.CalibrateRequest{}, response: wire.WorkEvent{}, responseType: eventType, handle: (*Server).calibrate},

		{method: "POST", path: "/v1/cases", summary: "Cases with their inputs, for a client that executes them",
			request: wire.CasesRequest{}, responseType: casesType, handle: (*Server).cases},
		{method: "POST", path: "/v1/submit", summary: "Judge what a client computed",
			requestType: submitType, response: wire.SubmitReply{}, handle: (*Server).submit},
		{method: "POST", path: "/v1/submissions", summary: "Judge what a client computed on many cases",
			requestType: submitType, response: wire.SubmissionsReply{}, handle: (*Server).submissions},

		{method: "POST", path: "/v1/batches", summary: "A batch of cases in columns, with their inputs in a shared file",
			request: wire.BatchRequest{}, response: wire.Batch{}, handle: post((*Server).batch)},
		{method: "POST", path: "/v1/judgements", summary: "Judge the outputs of a batch, which lie in a shared file",
			request: wire.JudgeRequest{}, response: wire.JudgeReply{}, handle: post((*Server).judgements)},

		{method: "POST", path: "/v1/gradients", summary: "Judge the gradients of a framework's backward pass",
			requestType: submitType, response: wire.SubmitReply{}, handle: (*Server).gradients},
		{method: "POST", path: "/v1/compare", summary: "Compare given tensors; nothing is stored",
			requestType: submitType, response: wire.CompareReply{}, handle: (*Server).compareTensors},
		{method: "POST", path: "/v1/fit", summary: "Fit a tolerance to given errors of correct runs; nothing is stored",
			request: wire.FitRequest{}, response: wire.Calibration{}, handle: post((*Server).fit)},
	}
}

// newMux makes the mux of the routes.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) {
			if err := rt.handle(s, w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if _, pattern := mux.Handler(probe); pattern != "/" && method != r.Method {
				w.Header().Set("Allow", method)
				sendError(w, diag.Errorf(WrongMethod, "use "+method, "%s is not for %s", r.Method, cut(r.URL.Path, 100)))
				return
			}
		}
		sendError(w, diag.Errorf(NotFound, "GET /v1/openapi.json lists the API", "there is no %s", cut(r.URL.Path, 100)))
	})
	return mux
}

// Handler returns the API. It answers the same way over a socket and in process.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			sendError(w, diag.Errorf(Stopping, "start it again: gpuemu daemon start", "the daemon is stopping"))
			return
		}
		defer s.leave()
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
		out := &tracked{ResponseWriter: w, server: s, body: s.paced(w, r)}
		r = r.WithContext(ctx)
		if out.body != nil {
			r.Body = out.body
		}
		conn, _ := ctx.Value(peerKey{}).(*peerConn)
		conn.serve()
		defer conn.await()
		defer out.body.after(w)
		defer func() { s.drop(out.held) }()
		defer s.rescue(out, r)
		s.mux.ServeHTTP(out, r)
	})
}

// rescue answers a request whose handler panicked, and logs the stack. The server goes on.
func (s *Server) rescue(w *tracked, r *http.Request) {
	p := recover()
	switch {
	case p == nil:
		return
	case p == http.ErrAbortHandler:
		panic(p)
	}
	s.opt.Log.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p),
		"stack", string(debug.Stack()))
	if w.sent {
		panic(http.ErrAbortHandler) // the answer has begun: only a broken connection tells that it is not complete
	}
	sendError(w, diag.Errorf(Internal, "this is a fault of gpuemu: please report it with the log (gpuemu daemon logs)",
		"internal error: %v", p))
}

// fail answers with an error, and logs it where it is ours.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if cause := context.Cause(r.Context()); errors.Is(cause, errStopping) && errors.Is(err, context.Canceled) {
		err = diag.Errorf(Stopping, "start it again: gpuemu daemon start", "the daemon is stopping")
	}
	if e := toWire(err); status(e.Code) >= http.StatusInternalServerError {
		s.opt.Log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "code", e.Code, "error", e.Message)
	}
	if t, ok := w.(*tracked); ok && t.sent {
		panic(http.ErrAbortHandler) // as above
	}
	sendError(w, err)
}

// tracked remembers whether the answer has begun.
type tracked struct {
	http.ResponseWriter
	server *Server
	body   *pacedBody // of the request; nil: it has none, or needs no limits
	held   int64      // bytes for the body
	sent   bool
}

// hold counts the memory of a JSON body of n bytes, -1 where that is not known, until the request ends.
func (t *tracked) hold(n int64) error {
	if n < 0 {
		n = maxJSON
	}
	if n *= jsonBytes; n <= jsonBytes*smallJSON {
		return nil
	}
	err := t.server.hold(n)
	if err == nil {
		t.held += n
	}
	return err
}

func (t *tracked) WriteHeader(status int) {
	if !t.sent {
		t.body.before(t.Header(), status)
	}
	t.sent = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	if !t.sent {
		t.WriteHeader(http.StatusOK)
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find what the writer can do.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// get makes a handler of a method that needs no body.
func get[Reply any](
	f func(*Server, *http.Request) (*Reply, error),
) func(*Server, http.ResponseWriter, *http.Request) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		reply, err := f(s, r)
		if err != nil {
			return err
		}
		return sendJSON(w, http.StatusOK, reply)
	}
}

// post makes a handler of a method with a JSON body and a JSON reply.
func post[Request, Reply any](
	f func(*Server, context.Context, *Request) (*Reply, error),
) func(*Server, http.ResponseWriter, *http.Request) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		req := new(Request)
		if err := readJSON(w, r, req); err != nil {
			return err
		}
		reply, err := f(s, r.Context(), req)
		if err != nil {
			return err
		}
		return sendJSON(w, http.StatusOK, reply)
	}
}

// readJSON reads the body of a request. Fields that are not known are ignored: a newer client may send more.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if r.ContentLength > maxJSON { // said at once, not after reading what cannot be right
		return diag.Errorf(TooLarge, "", "the body has more than %d bytes", maxJSON)
	}
	if t, ok := w.(*tracked); ok {
		if err := t.hold(r.ContentLength); err != nil {
			return err
		}
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJSON))
	err := dec.Decode(into)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows after the JSON value")
		}
	}
	if err == nil {
		return nil
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return diag.Errorf(TooLarge, "", "the body has more than %d bytes", tooLarge.Limit)
	case diag.CodeOf(err) == TooSlow:
		return err
	case errors.Is(err, io.EOF):
		return diag.Errorf(BadRequest, "send a JSON object", "the request has no body")
	}
	return diag.Errorf(BadRequest, "docs/formats/http.md and GET /v1/openapi.json describe the API",
		"the body is not what %s takes: %w", cut(r.URL.Path, 100), err)
}

// sendJSON answers with a JSON document.
func sendJSON(w http.ResponseWriter, code int, value any) error {
	var text []byte
	var err error
	if list, ok := value.(*wire.FailuresReply); ok { // of results that are JSON already, none is parsed again
		text = list.Text()
	} else if text, err = json.Marshal(value); err != nil {
		return fmt.Errorf("reply %T: %w", value, err)
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1)) // in one piece: chunks take the peer longer to read
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a peer that is gone needs no answer
	return nil
}
