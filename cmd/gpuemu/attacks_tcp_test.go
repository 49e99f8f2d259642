//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// This file implements attacks on the TCP listener.

// authorized is an HTTP request with the token.
func authorized(path, body string) string {
	return request(path, body, "Authorization: Bearer "+victimToken)
}

// unauthorized: the answer says that there is no token, and nothing else.
func unauthorized(r reply) error {
	if r.status != http.StatusUnauthorized {
		return fmt.Errorf("got %v, want 401", r)
	}
	for name := range r.header {
		if strings.HasPrefix(name, "Access-Control-") {
			return fmt.Errorf("a page of a stranger may read: %s", name)
		}
	}
	return refused(r)
}

// overTLS sends each text over TCP and looks at each answer.
func overTLS(ok func(reply) error, texts ...string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		for _, text := range texts {
			want(t, text, exchange(v.dialTLS(), text), ok)
		}
	}
}

const unsent = "POST /v1/submit HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n%s\r\n"

var tcpAttacks = []attack{
	{name: "TCP huge body without token", sends: "the headers of a body of 8 GiB, none of it, and no token",
		holds: "401 before the body", tcp: true, do: func(t *testing.T, v *victim) {
			overTLS(unauthorized, fmt.Sprintf(unsent, int64(8)<<30, ""))(t, v)
		}},
	{name: "TCP small body without token", sends: "the headers of a body of 100 KiB, none of it, and no token",
		holds: "401 before the body", tcp: true, do: func(t *testing.T, v *victim) {
			overTLS(unauthorized, fmt.Sprintf(unsent, 100<<10, ""),
				fmt.Sprintf(unsent, 100<<10, "Authorization: Bearer "+repeat("0", 32)+"\r\n"))(t, v)
		}},
	{name: "TCP endless body without token", sends: "chunks without end, no token",
		holds: "401, and the daemon hangs up",
		tcp:   true, do: tcpEndless},
	{name: "TCP wrong tokens", sends: "tokens that are cut, longer, of another scheme, twice, elsewhere", holds: "401",
		tcp: true, do: wrongTokens},
	{name: "TCP many wrong tokens", sends: "500 guesses on one connection", holds: "401 each, or hung up on", tcp: true,
		do: guessTokens},
	{name: "TCP page of a stranger", sends: "DNS rebinding and requests of a browser, without the token", holds: "401",
		tcp: true, do: func(t *testing.T, v *victim) {
			overTLS(unauthorized,
				"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://evil.example\r\nConnection: close\r\n\r\n",
				"OPTIONS /v1/run HTTP/1.1\r\nHost: g\r\nOrigin: https://evil.example\r\nConnection: close\r\n"+
					"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n",
				request("/v1/shutdown", "{}", "Content-Type: text/plain", "Origin: null", "Cookie: token="+victimToken))(t, v)
		}},
	{name: "TCP without TLS", sends: "plain HTTP with the token, noise and NNG to the TLS port", holds: "refused",
		tcp: true, do: tcpPlain},
	{name: "TCP old TLS", sends: "a handshake of TLS 1.2 with its weak ciphers", holds: "refused", tcp: true,
		do: tcpOld},
	{name: "TCP half handshakes of 250", sends: "250 connections send 3 bytes of a hello and wait",
		holds: "the owner is served, over TCP too", tcp: true, do: func(t *testing.T, v *victim) {
			tcpHold(250, "\x16\x03\x01")(t, v)
		}},
	{name: "TCP half handshakes of 1500", sends: "1,500 connections send 3 bytes of a hello and wait",
		holds: "the owner is served, over TCP too", tcp: true, do: func(t *testing.T, v *victim) {
			tcpHold(1500, "\x16\x03\x01")(t, v)
		}, long: true},
	{name: "TCP hello announced", sends: "250 connections announce a record of 16 KiB and send none of it",
		holds: "the owner is served, over TCP too", tcp: true, do: func(t *testing.T, v *victim) {
			tcpHold(250, "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc")(t, v)
		}},
	{name: "TCP slow headers of 250", sends: "250 connections send half of a header within TLS",
		holds: "the owner is served, over TCP too", tcp: true, do: func(t *testing.T, v *victim) {
			tcpSlow(halfHeader)(t, v)
		}, long: true},
	{name: "TCP slow bodies of 250", sends: "250 requests without token send one byte of their body within TLS",
		holds: "the owner is served, over TCP too", tcp: true, do: func(t *testing.T, v *victim) {
			tcpSlow(slowBody)(t, v)
		}, long: true},
	{name: "TCP shared file", sends: "requests with the token that name a file of this machine", holds: "refused",
		tcp: true, do: tcpFiles},
	{name: "TCP NNG within TLS", sends: "a handshake of NNG within TLS", holds: "not spoken there", tcp: true,
		do: func(t *testing.T, v *victim) {
			want(t, "NNG", sendWhole(v.dialTLS(), v1Hello+string(v1Frame(1, `{"type":"Shutdown"}`))), turnedAway)
		}},
	{name: "TCP smuggled token", sends: "a request without token behind one with it, in its body",
		holds: "401 for the second", tcp: true, do: tcpSmuggle},
}

func tcpEndless(t *testing.T, v *victim) {
	conn := v.dialTLS()
	cut := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, "POST /v1/submit HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n")
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, repeat("x", 1<<20))
		for i := 0; i < 1<<14 && err == nil; i++ {
			_, err = io.WriteString(conn, chunk)
		}
		cut <- err
	}()
	want(t, "chunks without end", readReply(bufio.NewReader(conn)), unauthorized)
	if err := <-cut; err == nil {
		t.Error("16 GiB were read of a request without token")
	}
}

func wrongTokens(t *testing.T, v *victim) {
	for _, header := range []string{"Bearer ", "Bearer", "Bearer " + victimToken[:31], "Bearer " + victimToken + "0",
		"Bearer " + strings.ToUpper(victimToken), "Basic " + victimToken, "bearer\t" + victimToken, victimToken,
		"Bearer \"" + victimToken + "\"", "Bearer " + victimToken + ", x", "Bearer " + repeat("0", 60000),
		"Digest username=x, Bearer " + victimToken} {
		text := request("/v1/shutdown", "", "Authorization: "+header)
		want(t, header, exchange(v.dialTLS(), text), unauthorized)
	}
	for _, text := range []string{
		request("/v1/shutdown?token="+victimToken+"&access_token="+victimToken, ""),
		request("/v1/shutdown", "", "Proxy-Authorization: Bearer "+victimToken),
		request("/v1/shutdown", "", "Authorization: Bearer x", "Authorization: Bearer "+victimToken),
		request("/v1/shutdown", "", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: 127.0.0.1"),
		"POST /v1/shutdown HTTP/1.0\r\n\r\n",
	} {
		want(t, text, exchange(v.dialTLS(), text), unauthorized)
	}
}

func guessTokens(t *testing.T, v *victim) {
	conn := v.dialTLS()
	go func() {
		for i := range 500 {
			text := fmt.Sprintf("GET /v1/ping HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %032d\r\n\r\n", i)
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}()
	in := bufio.NewReader(conn)
	for range 500 {
		r := readReply(in)
		if r.status == 0 && !r.late() {
			return
		}
		want(t, "guess", r, unauthorized)
	}
}

func tcpPlain(t *testing.T, v *victim) {
	for _, text := range []string{authorized("/v1/shutdown", ""), v1Hello + string(v1Frame(1, `{"type":"Shutdown"}`)),
		repeat("\x00", 4096), "\x16\x03\x01\xff\xff" + repeat("\xff", 1<<17), "\x80\x2e\x01\x00\x02" + repeat("\x01", 64)} {
		conn, err := net.Dial("tcp", v.address)
		if err == nil {
			err = conn.SetDeadline(time.Now().Add(answerLimit))
		}
		if err != nil {
			t.Fatal(err)
		}
		want(t, text, exchange(conn, text), turnedAway)
	}
}

func tcpOld(t *testing.T, v *victim) {
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
		conn, err := tls.Dial("tcp", v.address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10,
			MaxVersion: version})
		if err == nil {
			conn.Close()
			t.Errorf("version %#x is spoken", version)
		}
	}
}

// stranger connects from another address than the owner's where this machine has more than one.
func stranger(v *victim) net.Conn {
	v.t.Helper()
	d := net.Dialer{}
	if runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
	}
	conn, err := d.Dial("tcp", v.address)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { conn.Close() })
	return conn
}

// tcpOwner: the owner, elsewhere, is served over TCP.
func tcpOwner(t *testing.T, v *victim) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // owner and attacker have the same address, and a limit of one is one of the other
	}
	r := exchange(v.dialTLS(), authorized("/v1/failures", "{}"))
	if r.status != http.StatusOK {
		t.Errorf("the owner is not served over TCP: %v", r)
	}
}

func tcpHold(n int, text string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		needFiles(t, n)
		for range n {
			_, _ = io.WriteString(stranger(v), text) // one that is hung up on is a defense
		}
		tcpOwner(t, v)
	}
}

func tcpSlow(text string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		needFiles(t, 250)
		for range 250 {
			conn := tls.Client(stranger(v), &tls.Config{InsecureSkipVerify: true})
			_ = conn.SetDeadline(time.Now().Add(answerLimit))
			_, _ = io.WriteString(conn, text) // one that is hung up on is a defense
		}
		tcpOwner(t, v)
	}
}

func tcpFiles(t *testing.T, v *victim) {
	secret := v.elsewhere + "/secret.txt"
	for path, body := range map[string]string{
		"/v1/cases":   object("op", "relu", "seed", "1", "count", 1, "shared", secret),
		"/v1/batches": object("op", "relu", "seed", "1", "count", 1, "shared", secret),
		"/v1/judgements": object("shared", secret, "forms", []any{}, "form", []int{}, "seeds", []string{}, "begin",
			[]int{}),
		"/v1/submit":    part(object("case", reluCase, "shared", secret, "bytes", []int{0, 16}), ""),
		"/v1/gradients": part(object("case", reluCase, "shared", secret, "bytes", []int{0, 16}), ""),
		"/v1/emulate":   part(object("file", secret, "grid", []int{1}, "block", []int{1}, "args", []any{}), ""),
		"/v1/compile":   object("file", secret),
	} {
		r := exchange(v.dialTLS(), authorized(path, body))
		if strings.Contains(string(r.body), "the secret of") {
			t.Errorf("%s tells the secret: %v", path, r)
		}
		want(t, path, r, refused)
	}
}

func tcpSmuggle(t *testing.T, v *victim) {
	conn := v.dialTLS()
	text := "POST /v1/failures HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer " + victimToken +
		"\r\nContent-Length: 2\r\n\r\n{}"
	go func() { _, _ = io.WriteString(conn, text+asks("POST", "/v1/shutdown")) }()
	in := bufio.NewReader(conn)
	want(t, text, readReply(in), unharmed)
	want(t, "the second", readReply(in), unauthorized)
}
