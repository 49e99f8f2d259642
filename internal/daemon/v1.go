package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
	"gpuemu/internal/wire"
)

// This file implements the entry of protocol v1, which the published Python client speaks: one request in, one reply
// out, and what the errors of the engine are called there. docs/formats/wire-v1.md describes the protocol.

const (
	// maxV1Listed is the most results that one reply lists: at some KiB each, more is of no use to a client that waits.
	maxV1Listed = 10_000
	// maxV1Cases is the most cases of one GetTestBatch.
	maxV1Cases = 100_000
	// maxV1TensorBytes is the most bytes of tensors in one reply, before base64: v1 cannot stream, the whole reply lies
	// in memory on both sides, and nng.MaxMessage is 1 GiB.
	maxV1TensorBytes = 512 << 20
	// v1Bytes is how many bytes are in memory for one of a message: itself, the strings of its JSON, and what they are
	// in base64 for.
	v1Bytes = 3
)

// v1Handler answers the requests of protocol v1. It may be used by several goroutines; no request waits for another one
// but for the processes of the op that both use.
type v1Handler struct {
	engine *campaign.Engine
	// project returns the project of a gpuemu.toml as it is now; "" stands for the one found where the daemon started.
	project  func(path string) (campaign.Project, error)
	started  time.Time
	version  string
	now      func() time.Time
	shutdown func() // asks the server to end; returns at once, and the reply is still sent
	log      *slog.Logger

	lastSeed atomic.Uint64                       // of ValidateOp, which brings no seed
	lastCI   atomic.Pointer[wire.V1CiRunSummary] // of RunCi
}

// serve answers one request. It always returns a reply.
func (h *v1Handler) serve(ctx context.Context, body []byte) (reply []byte) {
	defer func() {
		if v := recover(); v != nil {
			h.log.Error("v1 request: panic", "value", v, "stack", string(debug.Stack()))
			reply = v1Fault("fault of gpuemu: the request could not be answered; the daemon's log has the details")
		}
	}()
	req, err := wire.DecodeV1(body)
	var answer wire.V1Reply
	if err == nil {
		answer, err = h.answer(ctx, req)
	}
	if err != nil {
		refusal := h.refusal(err)
		refusal.Message = cut(refusal.Message, maxErrorText)
		answer = refusal
	}
	reply, err = wire.EncodeV1(answer)
	if err != nil {
		h.log.Error("v1 request: encode the reply", "error", err)
		return v1Fault("fault of gpuemu: the reply could not be written: " + err.Error())
	}
	return reply
}

// v1Fault is the reply of a request that failed through no fault of its own.
func v1Fault(message string) []byte {
	b, err := json.Marshal(map[string]any{"type": "Error", "code": wire.V1InternalError, "message": message})
	if err != nil {
		panic("daemon: internal error: " + err.Error()) // three strings always marshal
	}
	return b
}

// answer calls the method of the request.
func (h *v1Handler) answer(ctx context.Context, req wire.V1Request) (wire.V1Reply, error) {
	switch r := req.(type) {
	case wire.V1Ping:
		return wire.V1Pong{Version: h.version, ProtocolVersion: wire.V1Protocol,
			UptimeSecs: uint64(max(h.now().Sub(h.started), 0) / time.Second)}, nil
	case wire.V1Shutdown:
		h.shutdown()
		return wire.V1Ok{}, nil
	case wire.V1ValidateOp:
		return h.validateOp(ctx, r)
	case wire.V1SubmitOutput:
		return h.submitOutput(ctx, r)
	case wire.V1FuzzOp:
		return h.fuzzOp(ctx, r)
	case wire.V1GetTestCase:
		return h.getTestCase(ctx, r)
	case wire.V1GetTestBatch:
		return h.getTestBatch(ctx, r)
	case wire.V1GetResult:
		return h.getResult(ctx, r)
	case wire.V1ListResults:
		return h.listResults(ctx, r.Limit, store.Filter{})
	case wire.V1ListFailures:
		return h.listResults(ctx, r.Limit, store.Filter{FailedOnly: true})
	case wire.V1Reproduce:
		return h.reproduce(ctx, r)
	case wire.V1Minimize:
		return h.minimize(ctx, r)
	case wire.V1StoreBaseline:
		return h.storeBaseline(ctx, r)
	case wire.V1CompareBaseline:
		return h.compareBaseline(ctx, r)
	case wire.V1RunCi:
		return h.runCi(ctx, r)
	case wire.V1GetCiSummary:
		return h.getCiSummary()
	case wire.V1StoreArtifact:
		return h.storeArtifact(ctx, r)
	case wire.V1GetArtifact:
		return h.getArtifact(ctx, r)
	case wire.V1ListArtifacts:
		return h.listArtifacts(ctx)
	case wire.V1LintKernel:
		return h.lintKernel(ctx, r)
	case wire.V1StoreArtifactBaseline:
		return h.storeArtifactBaseline(ctx, r)
	case wire.V1DiffArtifactBaseline:
		return h.diffArtifactBaseline(ctx, r)
	}
	return nil, fmt.Errorf("request %T has no method", req)
}

// v1Refusal is an error that already is a reply.
type v1Refusal struct{ wire.V1Error }

func (e *v1Refusal) Error() string { return e.Message }

func v1Error(code wire.V1Code, format string, args ...any) error {
	return &v1Refusal{wire.V1Error{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// v1Invalid is the refusal of a request whose field is wrong.
func v1Invalid(field string, err error) error {
	return v1Error(wire.V1InvalidRequest, "Invalid request: %s: %s", field, v1Text(err))
}

// v1Text is an error with its next step on one line: v1 has one field for both.
func v1Text(err error) string {
	if hint := diag.HintOf(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// refusal says which error of v1 an error is. What has no code of ours is a fault of gpuemu and logged.
func (h *v1Handler) refusal(err error) wire.V1Error {
	var ready *v1Refusal
	var decode *wire.V1DecodeError
	var name *dtype.NameError
	switch {
	case errors.As(err, &ready):
		return ready.V1Error
	case errors.As(err, &decode):
		return wire.V1Error{Code: wire.V1InvalidRequest, Message: decode.Error()}
	case errors.As(err, &name):
		return wire.V1Error{Code: wire.V1InvalidRequest, Message: "Invalid request: " + v1Text(err)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return wire.V1Error{Code: wire.V1InternalError, Message: "the request was cancelled"}
	}
	code := diag.CodeOf(err)
	family, _, _ := strings.Cut(string(code), "-")
	switch {
	case code == campaign.UnknownOp:
		return wire.V1Error{Code: wire.V1OpNotFound, Message: v1Text(err)}
	case code == campaign.UnknownCase, code == store.NotFound, code == store.TensorsMissing:
		return wire.V1Error{Code: wire.V1NotFound, Message: v1Text(err)}
	case code == store.BadRecord:
		return wire.V1Error{Code: wire.V1InvalidRequest, Message: "Invalid request: " + v1Text(err)}
	case family == "config", family == "runner", code == campaign.NoBound, code == campaign.NoCalibration,
		code == campaign.InputNames, code == campaign.NothingToRun:
		return wire.V1Error{Code: wire.V1ConfigError, Message: v1Text(err)}
	case code == "", family == "store", family == "report", family == "inspect":
		h.log.Error("v1 request", "error", err)
		return wire.V1Error{Code: wire.V1InternalError, Message: v1Text(err)}
	}
	return wire.V1Error{Code: wire.V1InvalidRequest, Message: "Invalid request: " + v1Text(err)}
}

// configured returns the project of a request; config is the extension of ours, nil from the published client.
func (h *v1Handler) configured(config *string) (campaign.Project, error) {
	path := ""
	if config != nil {
		path = *config
	}
	p, err := h.project(path)
	if err != nil && diag.CodeOf(err) != "" {
		return p, v1Error(wire.V1ConfigError, "%s", v1Text(err))
	}
	return p, err
}

// v1NoSuchOp adds the configured ops to an error that says there is none of that name: v1 promises the list.
func v1NoSuchOp(p campaign.Project, err error) error {
	if diag.CodeOf(err) != campaign.UnknownOp {
		return err
	}
	names := []string{}
	if p.Config != nil {
		for i := range p.Config.Ops {
			names = append(names, p.Config.Ops[i].Name)
		}
	}
	return v1Error(wire.V1OpNotFound, "%s. Configured ops: [%s]", v1Text(err), strings.Join(names, ", "))
}
