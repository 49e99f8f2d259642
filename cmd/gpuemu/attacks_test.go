//go:build unix

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// This file implements the attacks on the daemon: how they are run, and the answers that are a defense.

// attack is an attempt to end the daemon, to lock its owner out, or to make it touch what is not its own.
type attack struct {
	name  string
	sends string                        // what the daemon gets
	holds string                        // what must be so then, beside the invariants of victim.check
	do    func(t *testing.T, v *victim) // sends it; what it keeps open stays open until the invariants were looked at
	tcp   bool                          // the daemon listens on TCP as well
	long  bool                          // not with -short
	peak  int64                         // bytes of memory; 0: usualPeak
}

// TestAttacks: every attack is refused or does no harm. Each has a daemon of its own, in a home of its own, which
// afterwards is alive, serves its owner, has kept to its memory, has changed nothing outside of its home and has logged
// no panic.
func TestAttacks(t *testing.T) {
	all := slices.Concat(connectionAttacks, httpAttacks, tcpAttacks, jsonAttacks, caseAttacks, tensorAttacks, fileAttacks,
		emulateAttacks, projectAttacks, v1Attacks)
	if len(all) < 42 {
		t.Errorf("there are %d attacks: some were lost", len(all))
	}
	names := map[string]bool{}
	for _, a := range all {
		if names[a.name] || a.sends == "" || a.holds == "" {
			t.Errorf("attack %q is there twice, or does not say what it sends and what must hold", a.name)
		}
		names[a.name] = true
		t.Run(a.name, func(t *testing.T) {
			if a.long && testing.Short() {
				t.Skip("thousands of connections or much memory: make unit runs it")
			}
			t.Parallel()
			v := startVictim(t, a.tcp)
			a.do(t, v)
			peak := int64(usualPeak)
			if a.peak != 0 {
				peak = a.peak
			}
			v.check(t, peak)
		})
	}
}

// errorCode is the form of stable codes.
var errorCode = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

// refused: the answer is an error of the request (or says that the daemon is busy), with a stable code.
func refused(r reply) error {
	var e struct{ Code, Message string }
	switch {
	case r.late():
		return fmt.Errorf("there is no answer")
	case r.status != http.StatusServiceUnavailable && (r.status < 400 || r.status > 499):
		return fmt.Errorf("got %v, want a refusal", r)
	case json.Unmarshal(r.body, &e) != nil || !errorCode.MatchString(e.Code) || e.Message == "":
		return fmt.Errorf("got %v, want a code and a message", r)
	case !utf8.Valid(r.body) || len(r.body) > 64<<10:
		return fmt.Errorf("the refusal is %d bytes, valid text: %v", len(r.body), utf8.Valid(r.body))
	}
	return nil
}

// turnedAway: what is no HTTP is refused in any form, or hung up on.
func turnedAway(r reply) error {
	switch {
	case r.late():
		return fmt.Errorf("there is no answer")
	case r.status == 0, r.status >= 400 && r.status <= 499:
		return nil
	case r.status == http.StatusNotImplemented, r.status == http.StatusHTTPVersionNotSupported:
		return nil
	}
	return fmt.Errorf("got %v, want a refusal", r)
}

// unharmed: the answer may be anything but silence and a fault of the daemon.
func unharmed(r reply) error {
	switch {
	case r.late():
		return fmt.Errorf("there is no answer")
	case r.status >= 500 && r.status != http.StatusServiceUnavailable:
		return fmt.Errorf("got %v, a fault", r)
	}
	return nil
}

// want fails the test unless an answer is a defense.
func want(t *testing.T, what string, r reply, ok func(reply) error) {
	t.Helper()
	if err := ok(r); err != nil {
		t.Errorf("%s: %v", shorten(what), err)
	}
}

// shorten is a text as a message shows it.
func shorten(text string) string {
	if len(text) > 200 {
		return fmt.Sprintf("%.200q… (%d bytes)", text[:200], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// request is an HTTP request with a body.
func request(path, body string, headers ...string) string {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gpuemu\r\nConnection: close\r\nContent-Length: %d\r\n", path, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

// asks is an HTTP request without a body.
func asks(method, path string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: gpuemu\r\nConnection: close\r\n\r\n"
}

// sends sends each text on a connection of its own and looks at each answer.
func sends(ok func(reply) error, texts ...string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		for _, text := range texts {
			want(t, text, v.send(text), ok)
		}
	}
}

// posts sends bodies to a path and looks at each answer.
func posts(path string, ok func(reply) error, bodies ...string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		for _, body := range bodies {
			want(t, path+" "+body[:min(len(body), 200)], v.send(request(path, body)), ok)
		}
	}
}

// object is a JSON object; pairs of keys and values.
func object(pairs ...any) string {
	members := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		members[pairs[i].(string)] = pairs[i+1]
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// part is a header with an image, as submissions and launches have them.
func part(header, image string) string {
	head := append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...)
	return string(binary.LittleEndian.AppendUint64(head, uint64(len(image)))) + image
}

// repeat is a text again and again, until it has n bytes.
func repeat(text string, n int) string { return strings.Repeat(text, n/len(text)) }
