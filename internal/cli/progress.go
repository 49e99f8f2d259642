package cli

import (
	"fmt"
	"strings"
	"time"
)

// This file implements the progress bar: one line on a terminal, nothing anywhere else.

// progress is a bar on standard error. It shows itself after two seconds, unless delay says otherwise, and draws at
// most ten times a second.
type progress struct {
	term    *terminal
	what    string
	delay   time.Duration // before it shows itself
	started time.Time
	drawn   time.Time
	shown   bool
}

// Times of the bar: what is over sooner needs none, and faster drawing only flickers.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 100 * time.Millisecond
	progressWidth    = 28
)

// progress returns a bar for something that takes a while.
func (t *terminal) progress(what string) *progress {
	return &progress{term: t, what: what, delay: progressDelay, started: time.Now()}
}

// update draws the bar; note stands behind it.
func (p *progress) update(done, total int, note string) {
	now := time.Now()
	if !p.term.interactive() || now.Sub(p.started) < p.delay || now.Sub(p.drawn) < progressInterval || total <= 0 {
		return
	}
	p.drawn, p.shown = now, true
	fmt.Fprintf(p.term.err, "\r\x1b[K%s", barLine(p.what, done, total, now.Sub(p.started), note))
}

// barLine is the text of the bar.
func barLine(what string, done, total int, elapsed time.Duration, note string) string {
	done = min(done, total)
	full := done * progressWidth / total
	line := fmt.Sprintf("%s [%-*s] %d/%d", what, progressWidth, strings.Repeat("=", full), done, total)
	if done > 0 && done < total {
		left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
		line += " " + left.Round(time.Second).String() + " left"
	}
	if note != "" {
		line += ", " + note
	}
	return line
}

// clear takes the bar away, so that other lines can be printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.term.err, "\r\x1b[K")
		p.shown = false
	}
}
