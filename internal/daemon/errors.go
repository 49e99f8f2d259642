// This file implements errors on their way over the wire.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"gpuemu/internal/campaign"
	"gpuemu/internal/diag"
	"gpuemu/internal/inspect"
	"gpuemu/internal/store"
	"gpuemu/internal/wire"
)

// maxErrorText is how long a message or hint is, in bytes: what a request names it may quote, whatever its length.
const maxErrorText = 8 << 10

// toWire returns err as it is sent. What carries no code is a fault of ours.
func toWire(err error) *wire.Error {
	code := diag.CodeOf(err)
	out := &wire.Error{Code: string(code), Hint: diag.HintOf(err)}
	var outer *diag.Error
	switch e, isOuter := err.(*diag.Error); {
	case isOuter:
		outer = e
		out.Message, out.Pos = e.Msg, e.Pos.String()
	case code != "":
		out.Message = strings.TrimSuffix(err.Error(), " ["+string(code)+"]")
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		out.Code, out.Message = string(Cancelled), "given up before it was done: "+err.Error()
	default:
		out.Code, out.Message = string(Internal), err.Error()
		out.Hint = "this is a fault of gpuemu: please report it with the log (gpuemu daemon logs)"
	}
	if outer != nil && out.Code == "" {
		out.Code = string(Internal)
	}
	for _, text := range []*string{&out.Message, &out.Hint, &out.Pos} {
		*text = cut(*text, maxErrorText)
	}
	return out
}

// fromWire is the error as the client's caller sees it.
func fromWire(e *wire.Error) error {
	return &diag.Error{Code: diag.Code(e.Code), Msg: e.Message, Hint: e.Hint, Pos: parsePos(e.Pos)}
}

// parsePos reads file:line:col, of which line and column may be missing.
func parsePos(text string) diag.Pos {
	var numbers []int
	for len(numbers) < 2 {
		i := strings.LastIndexByte(text, ':')
		if i < 0 {
			break
		}
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n <= 0 {
			break
		}
		numbers, text = append(numbers, n), text[:i]
	}
	pos := diag.Pos{File: text}
	switch len(numbers) {
	case 1:
		pos.Line = numbers[0]
	case 2:
		pos.Line, pos.Col = numbers[1], numbers[0]
	}
	return pos
}

// statuses are the HTTP statuses of codes that are not 400.
var statuses = map[diag.Code]int{
	NotFound: http.StatusNotFound, WrongMethod: http.StatusMethodNotAllowed, TooLarge: http.StatusRequestEntityTooLarge,
	TooSlow: http.StatusRequestTimeout, Unauthorised: http.StatusUnauthorized, NoCampaign: http.StatusNotFound,
	NoArtifact: http.StatusNotFound, inspect.UnknownKernel: http.StatusNotFound,
	store.NotFound: http.StatusNotFound, store.TensorsMissing: http.StatusNotFound,
	campaign.UnknownCase: http.StatusNotFound, campaign.UnknownOp: http.StatusNotFound,

	store.CampaignTaken: http.StatusConflict, campaign.NotResumable: http.StatusConflict,
	campaign.CaseTooLarge: http.StatusRequestEntityTooLarge,
	campaign.NotFailing:   http.StatusConflict, campaign.NotExecutable: http.StatusConflict,

	Stopping: http.StatusServiceUnavailable, Busy: http.StatusServiceUnavailable, Cancelled: http.StatusServiceUnavailable,
	store.Locked: http.StatusServiceUnavailable,

	Internal: http.StatusInternalServerError, store.Internal: http.StatusInternalServerError,
	store.OpenFailed: http.StatusInternalServerError, store.Damaged: http.StatusInternalServerError,
	store.Full: http.StatusInternalServerError, store.IOFailed: http.StatusInternalServerError,
	store.ReadOnly: http.StatusInternalServerError, store.Closed: http.StatusInternalServerError,
	store.TensorsDamaged: http.StatusInternalServerError,
}

// status is the HTTP status of an error: 400 unless its code has another.
func status(code string) int {
	if n, ok := statuses[diag.Code(code)]; ok {
		return n
	}
	return http.StatusBadRequest
}

// sendError answers a request with an error.
func sendError(w http.ResponseWriter, err error) {
	e := toWire(err)
	text, marshalErr := json.Marshal(e)
	if marshalErr != nil {
		panic("daemon: internal error: " + marshalErr.Error()) // strings always marshal
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status(e.Code))
	_, _ = w.Write(append(text, '\n')) // a peer that is gone needs no answer
}
