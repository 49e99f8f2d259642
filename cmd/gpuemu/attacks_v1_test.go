//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// This file implements attacks with protocol v1.

// hungUp: after these bytes the daemon closes the connection, and says no more than its handshake.
func hungUp(t *testing.T, v *victim, what, text string) {
	t.Helper()
	conn := v.dial()
	go func() { _, _ = io.WriteString(conn, text) }()
	said, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if len(said) > 8 {
		t.Errorf("%s: the daemon says %.100q, %v", what, said, err)
	}
	if r := (reply{err: err}); r.late() {
		t.Errorf("%s: the daemon keeps the connection", what)
	}
}

// v1Errors sends messages, each of which must be answered with an error.
func v1Errors(bodies ...string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		for _, body := range bodies {
			reply, err := v1Exchange(v.dial(), body)
			if err != nil || !strings.Contains(reply, `"Error"`) || len(reply) > 64<<10 {
				t.Errorf("%s: got %.300q, %v, want an error", shorten(body), reply, err)
			}
		}
	}
}

// v1Answers sends messages, each of which must be answered with anything but a fault of the daemon.
func v1Answers(bodies ...string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		for _, body := range bodies {
			reply, err := v1Exchange(v.dial(), body)
			if err != nil || !strings.Contains(reply, `"type"`) || strings.Contains(reply, "InternalError") {
				t.Errorf("%s: got %.300q, %v", shorten(body), reply, err)
			}
		}
	}
}

func bigFrame(n uint64, rest string) string {
	return v1Hello + string(binary.BigEndian.AppendUint64([]byte{1}, n)) + rest
}

// fuzzConfig is that of a request of protocol v1 with an operator's schema.
func fuzzConfig(sizes, schema string) string {
	return fmt.Sprintf(
		`{"seed": 1, "shape_options": {"batch_sizes": %s, "seq_lengths": %s, "hidden_dims": %s, "edge_cases": [%s]},`+
			`"dtypes": ["float32"], "layouts": ["Contiguous"], "op_schema": %s}`, sizes, sizes, sizes, sizes, schema)
}

func v1Tensor(shape, data string) string {
	return fmt.Sprintf(`{"shape": [%s], "strides": [], "dtype": "float32", "data": %q}`, shape, data)
}

var v1Attacks = []attack{
	{name: "NNG wrong handshakes", sends: "handshakes of PUB, SUB, PAIR, BUS and of no protocol", holds: "hung up on",
		do: func(t *testing.T, v *victim) {
			for _, id := range []string{"\x00\x00", "\x00\x10", "\x00\x20", "\x00\x21", "\x00\x31", "\x00\x50", "\x00\x62",
				"\x00\x70", "\xff\xff"} {
				hungUp(t, v, fmt.Sprintf("protocol % x", id), "\x00SP\x00"+id+"\x00\x00"+string(v1Frame(1, `{"type":"Ping"}`)))
			}
			hungUp(t, v, "reserved bytes", "\x00SP\x00\x00\x30\x00\x01"+string(v1Frame(1, `{"type":"Ping"}`)))
		}},
	{name: "NNG giant messages", sends: "messages that claim 2^63 bytes and more", holds: "hung up on",
		do: func(t *testing.T, v *victim) {
			for _, n := range []uint64{1 << 63, math.MaxUint64, 1 << 40, 1<<30 + 1} {
				hungUp(t, v, fmt.Sprint(n), bigFrame(n, "\x80\x00\x00\x01{}"))
			}
		}},
	{name: "NNG messages that never come", sends: "50 messages that claim 1 GiB and send 1 MiB",
		holds: "memory is taken for what came",
		do: func(t *testing.T, v *victim) {
			hold(50, bigFrame(1<<30, "\x80\x00\x00\x01"+repeat(" ", 1<<20)))(t, v)
		}, long: true},
	{name: "NNG frames", sends: "frames of other types, empty ones, ones without id, with 16 hops",
		holds: "hung up on, or dropped",
		do: func(t *testing.T, v *victim) {
			hungUp(t, v, "type 2", v1Hello+"\x02"+string(v1Frame(1, `{"type":"Ping"}`))[1:])
			hungUp(t, v, "type 0", v1Hello+repeat("\x00", 64))
			hungUp(t, v, "empty", bigFrame(0, ""))
			hungUp(t, v, "short", bigFrame(3, "abc"))
			hungUp(t, v, "no id", bigFrame(8, "\x00\x00\x00\x01{}  "))
			conn := v.dial()
			hops := repeat("\x00\x00\x00\x01", 4*16) + "\x80\x00\x00\x01" + `{"type":"Ping"}`
			go func() {
				_, _ = io.WriteString(conn, bigFrame(uint64(len(hops)), hops)+string(v1Frame(7, `{"type":"Ping"}`)))
			}()
			var head [8 + 9 + 4]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil || head[len(head)-1] != 7 {
				t.Errorf("after a message with 16 hops: % x, %v", head, err)
			}
		}},
	{name: "NNG cut off", sends: "100 messages that end in the middle", holds: "dropped", do: func(t *testing.T,
		v *victim) {
		frame := string(v1Frame(1, `{"type":"Shutdown"}`))
		for i := range 100 {
			conn := v.dial()
			_, _ = io.WriteString(conn, v1Hello+frame[:i%len(frame)])
			conn.Close()
		}
		if reply, err := v1Exchange(v.dial(), `{"type":"Ping"}`); err != nil || !strings.Contains(reply, "Pong") {
			t.Errorf("Ping: %q, %v", reply, err)
		}
	}},
	{name: "NNG replies never read", sends: "10,000 requests on each of 4 connections that read nothing",
		holds: "the daemon stops reading as well", do: v1Unread},
	{name: "NNG one id", sends: "5,000 different requests with one id", holds: "each is answered", do: v1OneID},
	{name: "NNG JSON bombs", sends: "nesting, long lists, repeated keys, huge numbers", holds: "an error",
		do: func(t *testing.T, v *victim) {
			v1Errors(repeat("[", 1<<20), repeat(`{"type":`, 1<<20), `{"type": "Ping", "type": "Shutdown"}`,
				`{"type": "GetResult", "seed": 1, "seed": 2}`,
				`{"type": "GetResult", "seed": -1}`, `{"type": "GetResult", "seed": 18446744073709551616}`,
				`{"type": "GetResult", "seed": 1e400}`,
				`{"type": "GetResult", "seed": `+repeat("9", 1<<20)+`}`, `{"type": "GetResult", "seed": "1"}`,
				`{"type": "StoreBaseline", "tag": `+repeat("[", 1<<20)+`}`,
				`{"type": "`+repeat("P", 1<<20)+`"}`, `{"type": null}`, `{"type": ["Ping"]}`, `{"type": "ping"}`, `{}`,
				fmt.Sprintf(`{"type": "GetTestCase", "op_name": "relu", "fuzz_config": %s}`, fuzzConfig("["+repeat("1,", 4<<20)+
					"1]", "null")))(t, v)
		}},
	{name: "NNG bodies that are not JSON", sends: "nothing, MessagePack, binary noise, NUL, UTF-16, invalid UTF-8",
		holds: "an error",
		do: func(t *testing.T, v *victim) {
			v1Errors("", " ", "\x00", "\x81\xa4type\xa4Ping", repeat("\xff", 1<<16), "\xff\xfe{\x00}\x00",
				"\xef\xbb\xbf{\"type\":\"Ping\"}", "Ping",
				`{"type": "Ping"} {"type": "Shutdown"}`, "{\"type\": \"P\xff\"}", `{"type": "Ping"`,
				"{\"type\": \"GetArtifact\", \"kernel_name\": \"\xff\xfe\"}")(t, v)
		}},
	{name: "NNG sizes of cases", sends: "sizes below zero, of 2^63, with products beyond it, of terabytes",
		holds: "an error",
		do: func(t *testing.T, v *victim) {
			for _, sizes := range []string{"[-1]", "[9223372036854775807]", "[18446744073709551616]", "[4294967296]",
				"[100000]", "[]"} {
				config := fuzzConfig(sizes, "null")
				v1Errors(fmt.Sprintf(`{"type": "GetTestCase", "op_name": "relu", "fuzz_config": %s}`, config),
					fmt.Sprintf(`{"type": "GetTestBatch", "op_name": "relu", "fuzz_config": %s, "count": 100}`, config),
					fmt.Sprintf(`{"type": "FuzzOp", "op_name": "relu", "fuzz_config": %s, "iterations": 1, "fail_fast": true}`,
						config))(t, v)
			}
			config := fuzzConfig("[1]", "null")
			for _, n := range []string{"100001", "18446744073709551615", "-1"} {
				v1Errors(fmt.Sprintf(`{"type": "GetTestBatch", "op_name": "relu", "fuzz_config": %s, "count": %s}`, config, n),
					fmt.Sprintf(`{"type": "Minimize", "seed": 1, "strategy": "BinarySearchDims", "max_iters": %s}`, n),
					fmt.Sprintf(`{"type": "FuzzOp", "op_name": "relu", "fuzz_config": %s, "iterations": %s00, "fail_fast": true}`,
						config, n))(t, v)
			}
		}},
	{name: "NNG schemas", sends: "schemas of operators with many inputs, unknown dimensions, huge candidates",
		holds: "an answer within memory",
		do: func(t *testing.T, v *victim) {
			for _, schema := range []string{`{"name": "own", "dims": [{"name": "H", "candidates": [9223372036854775807]}],` +
				` "inputs": [{"name": "x", "dims": ["H", "H"]}]}`,
				`{"name": "own", "dims": [{"name": "H", "candidates": []}], "inputs": [{"name": "x", "dims": ["H"]}]}`,
				`{"name": "own", "dims": [], "inputs": [{"name": "x", "dims": ["H"]}]}`,
				`{"name": "own", "dims": [{"name": "H", "candidates": [1048576]}], "inputs": [{"name": "x", "dims": ["H", "H"]}]}`,
				`{"name": "own", "dims": [{"name": "H", "candidates": [1048576]}], "inputs": [` + repeat(
					`{"name": "x", "dims": ["H"]},`, 1<<20) + `{"name": "y", "dims": ["H"]}]}`} {
				v1Answers(fmt.Sprintf(`{"type": "GetTestBatch", "op_name": "relu", "fuzz_config": %s, "count": 1}`, fuzzConfig(
					"[1]", schema)))(t, v)
			}
		}},
	{name: "NNG tensors", sends: "tensors whose shape, data and base64 do not fit", holds: "an error", do: func(
		t *testing.T, v *victim) {
		for _, tensor := range []string{v1Tensor("4611686018427387904", ""), v1Tensor("4294967296, 4294967296", ""),
			v1Tensor("-1", "AAAA"),
			v1Tensor("4", "AAAA"), v1Tensor("1", "!!!!"), v1Tensor("1", "AAAAAA=="+repeat("=", 1<<20)), v1Tensor("1",
				"AAAAAA==AAAAAA=="), v1Tensor("1.5", ""),
			v1Tensor(strings.TrimSuffix(repeat("1,", 1<<20), ","), "AAAAAA=="), v1Tensor("1", repeat("A", 8<<20)), "null",
			"{}"} {
			v1Errors(fmt.Sprintf(
				`{"type": "ValidateOp", "op_name": "relu", "inputs": {"input": %s}, "output": %s, "kwargs": {}}`, tensor,
				tensor))(t, v)
		}
	}},
	{name: "NNG names", sends: "artifacts, kernels, tags, operators and configurations that are paths and controls",
		holds: "no file is touched",
		do: func(t *testing.T, v *victim) {
			for _, name := range []string{"../../../elsewhere/planted", v.elsewhere + "/planted", "a\x00b", "\x1b[2J\r\nfake",
				repeat("n", 1<<20), "", "'; DROP TABLE x; --"} {
				v1Answers(object("type", "GetArtifact", "kernel_name", name), object("type", "CompareBaseline", "tag", name),
					object("type", "DiffArtifactBaseline", "tag", name), object("type", "StoreArtifactBaseline", "tag", name),
					object("type", "LintKernel", "kernel_name", name, "ptx_content", kernel("", "")),
					object("type", "RunCi", "quick", true, "baseline", name, "parallel_jobs", 1),
					object("type", "StoreArtifact", "kernel_name", name, "metrics", map[string]any{"kernel_name": name,
						"register_count": 1,
						"spill_count":    0, "local_memory_bytes": 0, "shared_memory_bytes": 0, "instruction_count": 0,
						"patterns_found": []string{name},
						"source":         "Ptx", "timestamp": 0, "ptx_content": nil}))(t, v)
			}
			for _, config := range []string{v.elsewhere + "/secret.txt", "/etc/passwd", "/dev/zero", "relative", "/a\x00b"} {
				v1Errors(object("type", "RunCi", "quick", true, "baseline", nil, "parallel_jobs", 1, "config", config))(t, v)
			}
		}},
	{name: "NNG limits of lists", sends: "limits of 2^64-1 and below zero", holds: "answered or an error",
		do: func(t *testing.T, v *victim) {
			v1Answers(`{"type": "ListResults", "limit": 18446744073709551615}`,
				`{"type": "ListFailures", "limit": 9223372036854775808}`,
				`{"type": "ListResults", "limit": -1}`, `{"type": "Reproduce", "seed": 18446744073709551615}`)(t, v)
		}},
}

func v1Unread(_ *testing.T, v *victim) {
	for range 4 {
		conn := v.dial()
		taken := make(chan struct{}, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.WriteString(conn, v1Hello)
			for i := range 10_000 {
				if _, err := conn.Write(v1Frame(uint32(i), `{"type": "Nothing", "x": "`+repeat("x", 4096)+`"}`)); err != nil {
					break
				}
				select {
				case taken <- struct{}{}:
				default:
				}
			}
		}()
		<-taken
		v.t.Cleanup(func() { conn.Close(); <-done })
	}
}

// v1OneID: a copy is a request with the same id and the same bytes. Others are requests of their own.
func v1OneID(t *testing.T, v *victim) {
	const n = 5000
	conn := v.dial()
	go func() {
		_, _ = io.WriteString(conn, v1Hello)
		for i := range n {
			if _, err := conn.Write(v1Frame(1, fmt.Sprintf(`{"type": "GetResult", "seed": %d}`, i))); err != nil {
				return
			}
		}
	}()
	if _, err := io.CopyN(io.Discard, conn, 8); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint64(head[1:]))); err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
	}
}
