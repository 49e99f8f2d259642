package proof

import (
	"fmt"
	"time"

	"gpuemu/internal/escape"
)

// This file implements the progress line: on a terminal, and nowhere else.

// Times of the progress line: what is over sooner needs none, and faster drawing only flickers.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 100 * time.Millisecond
)

// progress draws how far something is, on a terminal and after two seconds.
type progress struct {
	t              *terminal
	what           string
	started, drawn time.Time
}

func (t *terminal) progress(what string) *progress {
	return &progress{t: t, what: what, started: time.Now()}
}

func (p *progress) update(done, total int) {
	now := time.Now()
	if !p.t.errTTY || now.Sub(p.started) < progressDelay || now.Sub(p.drawn) < progressInterval {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.t.err, "\r\x1b[K%s %d/%d", escape.Text(p.what), done, total)
}

// end takes the line away.
func (p *progress) end() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.t.err, "\r\x1b[K")
	}
}
