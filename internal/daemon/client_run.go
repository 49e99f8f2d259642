// This file implements the client's side of streams: campaigns and other long requests.

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

const (
	// cancelGrace is how long a campaign may take to end after it was cancelled: running candidates are killed at once,
	// and what is finished goes to the store.
	cancelGrace = 30 * time.Second
	// maxEvent is the longest event that a client reads: a result with its case, at most 4 MiB in a report, twice over.
	maxEvent = 16 << 20
)

// Run starts a campaign, calls on for every event until its end, and returns the summary. When ctx ends, the campaign
// is cancelled; the summary of what is finished is still returned. on may be nil.
func (c *Client) Run(ctx context.Context, req *wire.RunRequest, on func(*wire.Event)) (*verdict.Summary, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The stream outlives ctx: it is how the summary of a cancelled campaign arrives.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &running{client: c, abort: cancel, ready: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { r.cancel(streamCtx) })
	defer stop()
	resp, err := c.send(streamCtx, http.MethodPost, "/v1/run", req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	defer resp.Body.Close()
	var sum *verdict.Summary
	var failure error
	err = readEvents(resp.Body, func(ev *wire.Event) error {
		r.started(ev.Campaign)
		if on != nil {
			on(ev)
		}
		if ev.Type != wire.EventDone {
			return nil
		}
		if ev.Error != nil {
			failure = fromWire(ev.Error)
		}
		if err := decode(ev.Summary, &sum); err != nil {
			return err
		}
		return errEndOfStream
	})
	switch {
	case errors.Is(err, errEndOfStream):
		return sum, failure
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	hint := "gpuemu status shows whether the daemon still runs it"
	if id := r.id(); id != "" {
		hint += "; --resume=" + id + " continues it"
	}
	return nil, diag.Errorf(Lost, hint, "the connection to the daemon is lost: %w", err)
}

// errEndOfStream ends the reading of a stream whose last event has come.
var errEndOfStream = errors.New("end of stream")

// running is a campaign that this client started.
type running struct {
	client *Client
	abort  context.CancelFunc
	once   sync.Once
	ready  chan struct{} // closed when name is set
	name   string
}

func (r *running) started(id string) { r.once.Do(func() { r.name = id; close(r.ready) }) }

func (r *running) id() string {
	select {
	case <-r.ready:
		return r.name
	default:
		return ""
	}
}

// cancel ends the campaign. If that does not work in time, the connection is given up.
func (r *running) cancel(ctx context.Context) {
	timer := time.AfterFunc(cancelGrace, r.abort)
	context.AfterFunc(ctx, func() { timer.Stop() })
	select {
	case <-r.ready:
	case <-time.After(time.Second): // not even started: there is nothing to keep
		r.abort()
		return
	case <-ctx.Done():
		return
	}
	if _, err := r.client.Cancel(ctx, r.name); err != nil && ctx.Err() == nil {
		r.abort()
	}
}

// work performs a long request: progress events, then the reply.
func work[T any](
	ctx context.Context, c *Client, path string, req any, progress func(done, budget int),
) (*T, error) {
	resp, err := c.send(ctx, http.MethodPost, path, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(T)
	err = readEvents(resp.Body, func(ev *wire.WorkEvent) error {
		switch {
		case ev.Type != wire.EventDone:
			if progress != nil {
				progress(ev.Done, ev.Budget)
			}
			return nil
		case ev.Error != nil:
			return fromWire(ev.Error)
		}
		if err := json.Unmarshal(ev.Reply, out); err != nil {
			return diag.Errorf(Internal, "", "the daemon sent a %T that cannot be read: %w", out, err)
		}
		return errEndOfStream
	})
	switch {
	case errors.Is(err, errEndOfStream):
		return out, nil
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return nil, lost(ctx, err)
}

// readEvents reads server-sent events and hands their data on until the stream or each ends. Fields other than data are
// not needed: the type of an event is in its data as well.
func readEvents[E any](r io.Reader, each func(*E) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data)+len(text) > maxEvent {
				return fmt.Errorf("an event has more than %d bytes", maxEvent)
			}
			data = append(data, bytes.TrimPrefix(text, []byte(" "))...)
			continue
		}
		if len(line) > 0 || len(data) == 0 {
			continue
		}
		ev := new(E)
		if err := json.Unmarshal(data, ev); err != nil {
			return fmt.Errorf("event %q: %w", cut(string(data), 100), err)
		}
		if err := each(ev); err != nil {
			return err
		}
		data = data[:0]
	}
	return lines.Err()
}

// query encodes pairs of names and values, leaving out empty values.
func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v.Encode()
}

// cut shortens text for a message.
func cut(text string, limit int) string {
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return text
}
