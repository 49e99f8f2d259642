//go:build unix

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// This file implements attacks with many connections, and with connections that are slow or never read.

// hold opens connections, sends each the same bytes, and keeps them open.
func hold(n int, text string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		needFiles(t, n)
		for range n {
			_, _ = io.WriteString(v.dial(), text) // one that is hung up on is a defense
		}
	}
}

// needFiles skips a test where the system does not let a process have so many connections.
func needFiles(t *testing.T, n int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if uint64(limit.Cur) < uint64(2*n+500) {
		t.Skipf("the system allows %d open files, the attack has %d connections", limit.Cur, n)
	}
}

const (
	halfHeader = "POST /v1/cases HTTP/1.1\r\nHost: gpuemu\r\nContent-Ty"
	slowBody   = "POST /v1/cases HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000000\r\n\r\n{"
)

var connectionAttacks = []attack{
	{name: "half headers of 250", sends: "250 connections send half of a header and wait", holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(250, halfHeader)(t, v)
		}},
	{name: "half headers of 1500", sends: "1,500 connections send half of a header and wait",
		holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(1500, halfHeader)(t, v)
		}, long: true},
	{name: "silence of 250", sends: "250 connections send nothing", holds: "the owner is served", do: func(t *testing.T,
		v *victim) {
		hold(250, "")(t, v)
	}},
	{name: "silence of 1500", sends: "1,500 connections send nothing", holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(1500, "")(t, v)
		}, long: true},
	{name: "two bytes of 1500", sends: "1,500 connections send less than tells the protocol",
		holds: "the owner is served", do: func(t *testing.T, v *victim) {
			hold(1500, "PO")(t, v)
		}, long: true},
	{name: "slow bodies of 250", sends: "250 requests send one byte of their body", holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(250, slowBody)(t, v)
		}},
	{name: "slow bodies of 1500", sends: "1,500 requests send one byte of their body", holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(1500, slowBody)(t, v)
		}, long: true},
	{name: "slow handshakes of 1500", sends: "1,500 connections begin a handshake of NNG", holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(1500, v1Hello[:4])(t, v)
		}, long: true},
	{name: "handshakes of 1500", sends: "1,500 peers of protocol v1 that never ask", holds: "the owner is served",
		do: func(t *testing.T, v *victim) {
			hold(1500, v1Hello)(t, v)
		}, long: true},
	{name: "idle connections", sends: "2,000 connections that were answered once and are kept",
		holds: "the owner is served", do: idleConnections, long: true},
	{name: "headers of parts that never come", sends: "250 submissions announce a header of 16 MiB and send 8 bytes",
		holds: "memory is taken for what has arrived alone", do: func(t *testing.T, v *victim) {
			hold(250,
				announced("/v1/submit", 1<<24, string(binary.LittleEndian.AppendUint32(nil, 1<<24-8))+"{\"op\""))(t, v)
		}},
	{name: "images that never come", sends: "8 submissions announce an image of 8 GiB and send none of it",
		holds: "a small submission of the owner is judged", do: announcedImages},
	{name: "cases never read", sends: "64 requests for a million cases each, whose answers nobody reads",
		holds: "the daemon waits, and keeps a few cases of each", do: func(t *testing.T, v *victim) {
			hold(64, request("/v1/cases",
				`{"op": "matmul", "seed": "1", "count": 1000000}`))(t, v)
		}},
	{name: "pipelined requests never read", sends: "20,000 requests on each of 4 connections that read nothing",
		holds: "the daemon stops reading as well", do: pipelinedUnread},
	{name: "pipelined requests", sends: "1,000 requests at once on one connection", holds: "each is answered, in order",
		do: pipelined},
	{name: "events never read", sends: "200 followers of a campaign that read nothing",
		holds: "the campaign ends all the same", do: unreadEvents},
	{name: "one byte at a time", sends: "a request in 1-byte writes", holds: "it is answered",
		do: byteByByte},
	{name: "hang up at once", sends: "2,000 requests whose peer is gone before the answer", holds: "the owner is served",
		do: hangUp},
}

// announced is the beginning of a request with a body of n bytes.
func announced(path string, n int64, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: %d\r\n\r\n%s", path, n, body)
}

func idleConnections(t *testing.T, v *victim) {
	needFiles(t, 2000)
	for range 2000 {
		conn := v.dial()
		_, _ = io.WriteString(conn, "GET /v1/ping HTTP/1.1\r\nHost: gpuemu\r\n\r\n")
		_ = readReply(bufio.NewReader(conn)) // one that is hung up on is a defense
	}
}

// reluCase is a case of four elements.
const reluCase = "relu dtype=float32 dims=B:1,S:1,H:4 attrs=math:gpu " +
	"in=input:float32[1,1,4]:contiguous:normal seed=9 gen=1"

func announcedImages(t *testing.T, v *victim) {
	head := `{"op": "relu"}`
	lie := string(binary.LittleEndian.AppendUint32(nil, uint32(len(head)))) + head +
		string(binary.LittleEndian.AppendUint64(nil, 8<<30))
	for range 8 {
		_, _ = io.WriteString(v.dial(), announced("/v1/submit", 9<<30, lie))
	}
	image := safetensors(`{"output":{"dtype":"F32","shape":[1,1,4],"data_offsets":[0,16]}}`, make([]byte, 16))
	for i := range 100 { // until the daemon has read what the others announce
		if r := v.send(request("/v1/submit", part(object("case", reluCase, "store", "none"), image))); r.status != 200 {
			t.Fatalf("small submission %d beside 8 that never come: %v", i, r)
		}
	}
}

func pipelinedUnread(_ *testing.T, v *victim) {
	var group sync.WaitGroup
	const one = "GET /v1/openapi.json HTTP/1.1\r\nHost: gpuemu\r\n\r\n"
	var conns []net.Conn
	for range 4 {
		conn := v.dial()
		conns = append(conns, conn)
		written := make(chan struct{}, 1)
		group.Go(func() {
			for range 20 {
				if _, err := io.WriteString(conn, strings.Repeat(one, 1000)); err != nil {
					return
				}
				select {
				case written <- struct{}{}: // the first thousand has been taken
				default:
				}
			}
		})
		<-written
	}
	v.t.Cleanup(group.Wait) // after the connections are closed, below
	v.t.Cleanup(func() { closeAll(conns) })
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		conn.Close()
	}
}

func pipelined(t *testing.T, v *victim) {
	conn := v.dial()
	go func() {
		_, _ = io.WriteString(conn, strings.Repeat("GET /v1/ping HTTP/1.1\r\nHost: gpuemu\r\n\r\n", 1000))
	}()
	in := bufio.NewReader(conn)
	for i := range 1000 {
		if r := readReply(in); r.status != 200 || !strings.Contains(string(r.body), `"protocol"`) {
			t.Fatalf("answer %d: %v", i, r)
		}
	}
}

func unreadEvents(t *testing.T, v *victim) {
	id := v.campaign(t, "fuzz", v.project("unread", "builtin:relu"), 200)
	for range 200 {
		_, _ = io.WriteString(v.dial(), asks("GET", "/v1/campaigns/"+id+"/events"))
	}
	if r := v.send(asks("GET", "/v1/campaigns/"+id+"/events")); !strings.Contains(string(r.body), "event: done") {
		t.Errorf("the campaign does not end: %v", r)
	}
}

func byteByByte(t *testing.T, v *victim) {
	conn := v.dial()
	for _, b := range []byte(request("/v1/failures", "{}")) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "byte by byte", readReply(bufio.NewReader(conn)), unharmed)
}

func hangUp(_ *testing.T, v *victim) {
	texts := []string{asks("GET", "/v1/status"), request("/v1/cases", `{"op": "matmul", "seed": "1", "count": 1000}`),
		asks("GET", "/v1/health"), request("/v1/lint", `{"ptx": "x"}`)}
	for i := range 2000 {
		conn, err := dialSocket(v.socket)
		if err != nil {
			v.t.Fatal(err)
		}
		_, _ = io.WriteString(conn, texts[i%len(texts)])
		conn.Close()
	}
}
