//go:build unix

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
)

// This file implements attacks with what HTTP leaves open and with what is no HTTP.

const smuggledShutdown = "POST /v1/shutdown HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 0\r\n\r\n"

var httpAttacks = []attack{
	{name: "content length of 2^63", sends: "bodies that claim up to 2^63 bytes and more", holds: "refused at once",
		do: func(t *testing.T, v *victim) {
			for _, n := range []string{"9223372036854775807", "1099511627776", "17000000"} {
				want(t, n, v.send("POST /v1/cases HTTP/1.1\r\nHost: g\r\nContent-Length: "+n+"\r\n\r\n{"), refused)
			}
			for _, n := range []string{"9223372036854775808", "18446744073709551616", "-1", "+5", "0x10", "1e3", "5 5", "５"} {
				want(t, n, v.send("POST /v1/cases HTTP/1.1\r\nHost: g\r\nContent-Length: "+n+"\r\n\r\n{"), turnedAway)
			}
		}},
	{name: "expect a huge body", sends: "Expect: 100-continue with a body of 1 TiB", holds: "refused without a 100",
		do: func(t *testing.T, v *victim) {
			r := v.send("POST /v1/cases HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 1099511627776\r\n\r\n")
			want(t, "expect", r, refused)
		}},
	{name: "chunked bomb", sends: "a chunked body of white space that never ends, and one of 64 MiB of digits",
		holds: "refused once it is larger than a body may be", do: chunkedBomb},
	{name: "chunks of no size", sends: "chunk sizes that overflow, are negative or no numbers", holds: "refused",
		do: func(t *testing.T, v *victim) {
			for _, size := range []string{"ffffffffffffffff", "10000000000000000", "-1", "0x5", "+5", "zz", "",
				repeat("0", 5000) + "5", "5;" + repeat("x", 1<<20)} {
				text := "POST /v1/cases HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" + size +
					"\r\n{\"op\"\r\n0\r\n\r\n"
				want(t, size, sendWhole(v.dial(), text), turnedAway)
			}
		}},
	{name: "gzip bomb", sends: "32 MiB of brackets that are compressed to a few KiB", holds: "nothing is unpacked",
		do: gzipBomb},
	{name: "headers without end", sends: "headers of 1 MiB: many, one long, a long path", holds: "refused, not kept",
		do: func(t *testing.T, v *victim) {
			sends(turnedAway,
				"GET /v1/ping HTTP/1.1\r\nHost: g\r\n"+repeat("X-A: b\r\n", 1<<20)+"\r\n",
				"GET /v1/ping HTTP/1.1\r\nHost: g\r\nX-A: "+repeat("b", 1<<20)+"\r\n\r\n",
				"GET /v1/"+repeat("a", 1<<20)+" HTTP/1.1\r\nHost: g\r\n\r\n",
				"GET /v1/artifacts?config="+repeat("%41", 1<<20)+" HTTP/1.1\r\nHost: g\r\n\r\n",
				repeat("G", 1<<20))(t, v)
		}},
	{name: "malformed headers", sends: "folded, spaced, bare and NUL-ridden headers, no host, two hosts",
		holds: "refused", do: func(t *testing.T, v *victim) {
			sends(turnedAway,
				"GET /v1/ping HTTP/1.1\r\nHost: g\r\nContent-Length : 5\r\n\r\nhello",
				"GET /v1/ping HTTP/1.1\r\nHost: g\r\nX: a\x00b\r\n\r\n",
				"GET /v1/ping HTTP/1.1\r\nHost: g\r\nX\x01: b\r\n\r\n",
				"GET /v1/ping HTTP/1.1\r\nHost: g\r\n: b\r\n\r\n",
				"GET /v1/ping HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
				"GET /v1/ping HTTP/1.1\r\nHost: a/../b\x7f\r\n\r\n",
				"GET /v1/ping HTTP/1.1\r\n\r\n",
				"GET /v1/ping\r\n\r\n",
				"GET /v1/ping HTTP/9.9\r\nHost: g\r\n\r\n",
				"GET /v1/p\x00ing HTTP/1.1\r\nHost: g\r\n\r\n",
				"GET  /v1/ping  HTTP/1.1\r\nHost: g\r\n\r\n",
				"G\xffT /v1/ping HTTP/1.1\r\nHost: g\r\n\r\n")(t, v)
		}},
	{name: "smuggling by two lengths", sends: "a request to end the daemon within a body with two lengths",
		holds: "it is not obeyed", do: func(t *testing.T, v *victim) {
			sends(turnedAway,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\nContent-Length: 100\r\n\r\n{}"+smuggledShutdown,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nContent-Length: 2, 100\r\n\r\n{}"+smuggledShutdown)(t, v)
		}},
	{name: "smuggling by odd encodings", sends: "the same with encodings that one server reads and another does not",
		holds: "it is not obeyed", do: func(t *testing.T, v *victim) {
			sends(turnedAway,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"+smuggledShutdown,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"+
					"0\r\n\r\n"+smuggledShutdown,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"+smuggledShutdown,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nTransfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n"+smuggledShutdown)(t, v)
		}},
	{name: "smuggling by length and encoding", sends: "the same with a length beside an encoding (RFC 9112, 6.1)",
		holds: "the connection ends with the first answer", do: smuggleBoth},
	{name: "smuggling by a header of another", sends: "the same, with a space before the colon or a bare LF before it",
		holds: "it is not obeyed", do: func(t *testing.T, v *victim) {
			sends(turnedAway,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nTransfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}"+
					smuggledShutdown,
				"POST /v1/failures HTTP/1.1\r\nHost: g\r\nX: y\rContent-Length: 2\r\n\r\n{}"+smuggledShutdown)(t, v)
		}},
	{name: "trailers", sends: "trailers that name the length, the host and the token", holds: "they change nothing",
		do: func(t *testing.T, v *victim) {
			sends(unharmed, "POST /v1/failures HTTP/1.1\r\nHost: g\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"+
				"Trailer: Content-Length, Host\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 99\r\nHost: evil\r\n"+
				"Authorization: Bearer x\r\n"+repeat("X-A: b\r\n", 1<<16)+"\r\n")(t, v)
		}},
	{name: "HTTP 2", sends: "the preface of HTTP/2 with settings, and a wish to change to it",
		holds: "refused or ignored",
		do: func(t *testing.T, v *victim) {
			want(t, "preface", v.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"), turnedAway)
			for _, to := range []string{"h2c", "websocket", "TLS/1.0"} {
				r := v.send("GET /v1/ping HTTP/1.1\r\nHost: g\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: " + to +
					"\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
				if r.status == 101 {
					t.Errorf("the daemon changes to %s", to)
				}
				want(t, to, r, unharmed)
			}
		}},
	{name: "TLS on the socket", sends: "hellos of TLS and SSH, and noise, to the Unix socket", holds: "hung up on",
		do: func(t *testing.T, v *victim) {
			for _, text := range []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + repeat("\xaa", 512),
				"SSH-2.0-OpenSSH_9.9\r\n\r\n\r\n", repeat("\x00", 1<<16), repeat("\xff", 1<<16), "\x00SP",
				"\x00SPX\x00\x30\x00\x00" + repeat("\r\n", 64), "EHLO evil.example\r\n\r\n", "*1\r\n$4\r\nPING\r\n\r\n"} {
				want(t, text, sendWhole(v.dial(), text), turnedAway)
			}
		}},
	{name: "proxy", sends: "absolute targets, CONNECT and TRACE", holds: "nothing is fetched, nothing comes back",
		do: func(t *testing.T, v *victim) {
			for _, text := range []string{"GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: g\r\n\r\n",
				"GET file:///etc/passwd HTTP/1.1\r\nHost: g\r\n\r\n", "GET gopher://x:1/ HTTP/1.1\r\nHost: g\r\n\r\n",
				"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
				"TRACE /v1/ping HTTP/1.1\r\nHost: g\r\nX-Secret: s3cret\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n"} {
				r := v.send(text)
				if strings.Contains(string(r.body), "s3cret") {
					t.Errorf("%q comes back: %v", text, r)
				}
				if !strings.HasPrefix(text, "OPTIONS") { // net/http answers that one with nothing
					want(t, text, r, turnedAway)
				}
			}
		}},
	{name: "other methods", sends: "methods that no path has", holds: "refused", do: func(t *testing.T, v *victim) {
		for _, method := range []string{"PUT", "PATCH", "DELETE", "PROPFIND", "M-SEARCH", repeat("A", 5000)} {
			want(t, method, v.send(asks(method, "/v1/shutdown")), refused)
		}
		want(t, "GET", v.send(asks("GET", "/v1/shutdown")), refused) // a link must not end the daemon
	}},
	{name: "paths upwards", sends: "paths with dots, encoded dots, double encodings and NUL",
		holds: "no file comes back",
		do:    pathsUpwards},
	{name: "a page of a stranger", sends: "what a browser sends for a page of another site",
		holds: "no leave to read it",
		do:    strangersPage},
}

// chunkedBomb: JSON that is legal up to where it is cut off, so that only the limit ends it.
func chunkedBomb(t *testing.T, v *victim) {
	for _, filler := range []string{" ", "1"} {
		conn := v.dial()
		go func() {
			_, err := io.WriteString(conn, "POST /v1/cases HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n")
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, repeat(filler, 1<<20))
			for i := 0; i < 1<<16 && err == nil; i++ {
				_, err = io.WriteString(conn, chunk)
			}
		}()
		want(t, "chunks of "+filler, readReply(bufio.NewReader(conn)), refused)
	}
}

func gzipBomb(t *testing.T, v *victim) {
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	for range 32 {
		if _, err := io.WriteString(w, repeat("[", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []string{"gzip", "deflate", "br", "gzip, gzip"} {
		want(t, encoding, v.send(request("/v1/cases", text.String(), "Content-Encoding: "+encoding)), refused)
	}
}

// smuggleBoth: what follows the end of the chunks would be the next request to one reader and a body to another. A
// server that goes by the chunks has to close the connection after its answer.
func smuggleBoth(t *testing.T, v *victim) {
	conn := v.dial()
	text := "POST /v1/failures HTTP/1.1\r\nHost: g\r\nContent-Length: 200\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"2\r\n{}\r\n0\r\n\r\n"
	if _, err := io.WriteString(conn, text+asks("GET", "/v1/ping")); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	want(t, text, readReply(in), unharmed)
	if second := readReply(in); second.status != 0 {
		t.Errorf("what followed the chunks was taken for a request: %v", second)
	}
}

func pathsUpwards(t *testing.T, v *victim) {
	for _, path := range []string{"/v1/../../../../etc/passwd", "/../etc/passwd", "/v1/artifacts/../../../etc/passwd",
		"/v1/artifacts/..%2f..%2f..%2fetc%2fpasswd", "/v1/artifacts/%2e%2e%2f%2e%2e%2fsecret.txt",
		"/v1/campaigns/..%252f..%252fgpuemu.db", "/v1/campaigns/%00", "/v1/campaigns/..%5c..%5cx",
		"/v1/campaigns/" + repeat("a", 60000), "/v1/campaigns/..%2f..%2fdb%2fgpuemu.db/events", "//etc/passwd",
		"/v1//status/../../etc/passwd", "/v1/artifacts/%ff%fe", "/v1/artifacts/x?config=/etc/passwd",
		"/v1/artifacts/%0d%0aSet-Cookie:%20a=b"} {
		r := v.send(asks("GET", path))
		if strings.Contains(string(r.body), "root:") || strings.Contains(string(r.body), "the secret of") ||
			r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %v", path, r)
		}
		if r.status < 300 || r.status > 399 { // net/http sends the caller to the clean path
			want(t, path, r, refused)
		}
	}
}

func strangersPage(t *testing.T, v *victim) {
	for _, text := range []string{
		"OPTIONS /v1/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: http://evil.example\r\n" +
			"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nOrigin: http://evil.example\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\nOrigin: null\r\n" +
			"Sec-Fetch-Site: cross-site\r\n\r\n",
	} {
		r := v.send(text)
		for name := range r.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%q is answered with %s: %v", text, name, r.header[name])
			}
		}
		want(t, text, r, unharmed)
	}
}
