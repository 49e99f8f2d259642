// This file implements the feed of a campaign: what its followers get to see.

package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

const (
	// progressInterval is the least time between two progress events of one follower: 20 a second move any bar.
	progressInterval = 50 * time.Millisecond
	// keepAlive is how often a silent stream sends a comment, so that a dead connection is noticed.
	keepAlive = 15 * time.Second
	// maxFeed is how many bytes of failures a feed keeps: a hundred thousand of them. Later ones are counted and stored.
	maxFeed = 1 << 30
)

// feed holds the events of one campaign. The campaign never waits for a follower: counts are overwritten, and failures
// go to a file that each follower reads at its own pace. Neither memory nor the campaign depends on the slowest.
type feed struct {
	campaign string
	log      *os.File // failure events, each with its length in front; removed from its directory already

	mu     sync.Mutex    // guards what follows
	users  int           // the campaign and its followers; the last one closes the log
	wake   chan struct{} // closed and replaced when a failure was written, or at the end
	counts verdict.Counts
	plan   int
	size   int64 // of log
	faulty error // the first error of writing; no failure is logged after it
	done   *wire.Event
}

// newFeed makes a feed with its file in dir.
func newFeed(dir string) (*feed, error) {
	f, err := os.CreateTemp(dir, "feed-*")
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("events: %w", err)
	}
	return &feed{log: f, users: 1, wake: make(chan struct{})}, nil
}

// join adds a user, unless the last one has left.
func (f *feed) join() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == 0 {
		return false
	}
	f.users++
	return true
}

// leave ends the use of whoever made the feed or joined it.
func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users == 0 {
		f.log.Close() // nothing of it is needed any more
	}
}

// event is an event with the counts of now. mu is held.
func (f *feed) event(kind wire.EventType) wire.Event {
	return wire.Event{Type: kind, Campaign: f.campaign, Done: f.counts.Total, Planned: f.plan, Passed: f.counts.Passed,
		Failed: f.counts.Failed, NotRun: f.counts.NotRun, Undecided: f.counts.Undecided}
}

// progress notes the counts and, where a case failed, its result.
func (f *feed) progress(counts verdict.Counts, planned int, res *verdict.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts, f.plan = counts, planned
	if res == nil || !res.Verdict.Failed() || f.faulty != nil || f.size > maxFeed {
		return
	}
	f.faulty = f.append(res)
	f.notify()
}

// append writes a failure to the log. mu is held; a write goes to the page cache, not to the disk.
func (f *feed) append(res *verdict.Result) error {
	ev := f.event(wire.EventFailure)
	var err error
	if ev.Result, err = encodeResult(res); err != nil {
		return err
	}
	text, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	record := append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	if _, err := f.log.WriteAt(record, f.size); err != nil {
		return err
	}
	f.size += int64(len(record))
	return nil
}

// finish notes the end.
func (f *feed) finish(ev wire.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = &ev
	f.notify()
}

func (f *feed) notify() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// state is what a follower sees at one moment.
type state struct {
	progress wire.Event
	size     int64
	done     *wire.Event
	wake     <-chan struct{}
}

func (f *feed) now() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	return state{f.event(wire.EventProgress), f.size, f.done, f.wake}
}

// follow sends the events to one follower until the campaign or ctx ends. Every failure is sent, and the end.
func (f *feed) follow(ctx context.Context, out *stream) error {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	var offset int64
	sent := -1 // cases in the last progress event
	for {
		now := f.now()
		for offset < now.size {
			n, err := f.replay(offset, out)
			if err != nil {
				return err
			}
			offset += n
		}
		if now.progress.Done != sent && now.done == nil {
			if err := out.send(now.progress.Type, now.progress); err != nil {
				return err
			}
			sent = now.progress.Done
		}
		if now.done != nil {
			return out.send(now.done.Type, now.done)
		}
		// At least one tick lies between two progress events; a failure or the end wakes at once.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-now.wake:
			sent = f.now().progress.Done // the event of the failure has the counts
		case <-tick.C:
			if err := out.alive(); err != nil {
				return err
			}
		}
	}
}

// replay sends the failure at an offset of the log and returns how long its record is.
func (f *feed) replay(offset int64, out *stream) (int64, error) {
	var head [4]byte
	if _, err := f.log.ReadAt(head[:], offset); err != nil {
		return 0, fmt.Errorf("events: %w", err)
	}
	text := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := f.log.ReadAt(text, offset+int64(len(head))); err != nil {
		return 0, fmt.Errorf("events: %w", err)
	}
	return int64(len(head) + len(text)), out.write(wire.EventFailure, text)
}

// stream is a response of server-sent events.
type stream struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	last time.Time
}

// newStream begins the response.
func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", eventType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, ctl: http.NewResponseController(w), last: time.Now()}
	_ = s.ctl.Flush() // the first event says whether the peer is there
	return s
}

// send sends one event.
func (s *stream) send(kind wire.EventType, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("event %s: %w", kind, err)
	}
	return s.write(kind, text)
}

// write sends one event whose data is JSON on one line.
func (s *stream) write(kind wire.EventType, text []byte) error {
	return s.raw(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, text))
}

// alive sends a comment where nothing was sent for a while.
func (s *stream) alive() error {
	if time.Since(s.last) < keepAlive {
		return nil
	}
	return s.raw([]byte(": alive\n\n"))
}

func (s *stream) raw(text []byte) error {
	s.last = time.Now()
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.ctl.Flush()
}
