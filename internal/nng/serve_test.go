package nng

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// helloReq and helloRep are the handshakes as NNG peers send them.
const (
	helloReq = "\x00SP\x00\x00\x30\x00\x00"
	helloRep = "\x00SP\x00\x00\x31\x00\x00"
)

// frame is one IPC message of less than 256 bytes as it stands on the stream.
func frame(parts ...string) string {
	body := strings.Join(parts, "")
	return "\x01\x00\x00\x00\x00\x00\x00\x00" + string([]byte{byte(len(body))}) + body
}

func echo(_ context.Context, body []byte) []byte { return append([]byte("re:"), body...) }

// replay is a connection that sends a fixed text and keeps what it is told.
type replay struct {
	io.Reader
	mu   sync.Mutex
	sent bytes.Buffer
}

func (c *replay) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent.Write(b)
}
func (c *replay) Close() error                     { return nil }
func (c *replay) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c *replay) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c *replay) SetDeadline(time.Time) error      { return nil }
func (c *replay) SetReadDeadline(time.Time) error  { return nil }
func (c *replay) SetWriteDeadline(time.Time) error { return nil }

func TestServeBytes(t *testing.T) {
	const id, hop = "\x80\x00\x12\x34", "\x00\x00\x00\x07"
	one := Options{MaxConcurrent: 1, MaxMessage: 200}
	for _, tt := range []struct {
		name, in, out string
		err           error
	}{
		{"one request", helloReq + frame(id, `{"type":"Ping"}`), helloRep + frame(id, `re:{"type":"Ping"}`), nil},
		{"empty body", helloReq + frame(id), helloRep + frame(id, "re:"), nil},
		{"two devices", helloReq + frame(hop, hop, id, "x"), helloRep + frame(hop, hop, id, "re:x"), nil},
		{"15 devices", helloReq + frame(strings.Repeat(hop, 15), id),
			helloRep + frame(strings.Repeat(hop, 15), id, "re:"), nil},
		{"16 devices", helloReq + frame(strings.Repeat(hop, 16), id), helloRep, nil},
		{"no request", helloReq, helloRep, nil},
		{"another protocol", "\x00SP\x00\x00\x10\x00\x00", "", ErrProtocol},
		{"reserved bytes set", "\x00SP\x00\x00\x30\x00\x01", "", ErrProtocol},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "", ErrProtocol},
		{"nothing", "", "", io.EOF},
		{"half a handshake", helloReq[:5], "", io.ErrUnexpectedEOF},
		{"TCP framing", helloReq + "\x00\x00\x00\x00\x00\x00\x00\x04" + id, helloRep, ErrProtocol},
		{"half a header", helloReq + "\x01\x00", helloRep, io.ErrUnexpectedEOF},
		{"header alone", helloReq + frame(id, "x")[:9], helloRep, io.ErrUnexpectedEOF},
		{"half a body", helloReq + frame(id, "abc")[:14], helloRep, io.ErrUnexpectedEOF},
		{"a length of 2^60", helloReq + "\x01\x10\x00\x00\x00\x00\x00\x00\x00", helloRep, ErrTooLarge},
		{"one byte too many", helloReq + frame(id, strings.Repeat("x", 197)), helloRep, ErrTooLarge},
		{"no id", helloReq + frame(hop, "xyz"), helloRep, ErrProtocol},
		{"empty frame", helloReq + frame(), helloRep, ErrProtocol},
		{"an id of before with another body", helloReq + frame(id, "a") + frame(id, "b"),
			helloRep + frame(id, "re:a") + frame(id, "re:b"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := &replay{Reader: strings.NewReader(tt.in)}
			if err := Serve(conn, echo, one); !errors.Is(err, tt.err) {
				t.Errorf("Serve(%q) = %v, want %v", tt.in, err, tt.err)
			}
			if got := conn.sent.String(); got != tt.out {
				t.Errorf("Serve(%q) sent %q, want %q", tt.in, got, tt.out)
			}
		})
	}
}

func TestLyingLengthAllocatesLittle(t *testing.T) {
	head := "\x01\x00\x00\x00\x00\x40\x00\x00\x00" // 1 GiB, and then nothing
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readFrame(strings.NewReader(head+"x"), MaxMessage)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("readFrame = %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2*firstChunk {
		t.Errorf("a frame of 1 GiB of which 1 byte came allocates %d bytes, want at most %d", got, 2*firstChunk)
	}
}

// pair is a Serve that runs, and the raw end of its connection.
type pair struct {
	net.Conn
	t    *testing.T
	done chan error
}

func start(t *testing.T, h Handler, opt Options) *pair {
	t.Helper()
	server, client := net.Pipe()
	p := &pair{Conn: client, t: t, done: make(chan error, 1)}
	go func() { p.done <- Serve(server, h, opt) }()
	p.send(helloReq)
	p.expect(helloRep)
	return p
}

func (p *pair) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.Conn, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.Conn, got); err != nil || string(got) != want {
		p.t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

func (p *pair) end(want error) {
	p.t.Helper()
	p.Close()
	if err := <-p.done; !errors.Is(err, want) {
		p.t.Errorf("Serve = %v, want %v", err, want)
	}
}

const (
	id1 = "\x80\x00\x00\x01"
	id2 = "\x80\x00\x00\x02"
	id3 = "\x80\x00\x00\x03"
)

func TestRepliesInAnyOrder(t *testing.T) {
	release := make(chan struct{})
	p := start(t, func(_ context.Context, body []byte) []byte {
		if string(body) == "slow" {
			<-release
		}
		return body
	}, Options{})
	p.send(frame(id1, "slow") + frame(id2, "quick"))
	p.expect(frame(id2, "quick"))
	close(release)
	p.expect(frame(id1, "slow"))
	p.end(nil)
}

func TestCopyOfRunningRequestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		p := start(t, func(context.Context, []byte) []byte { calls.Add(1); <-release; return []byte("ok") }, Options{})
		p.send(frame(id1, "x") + frame(id1, "x"))
		synctest.Wait() // both are read
		close(release)
		p.expect(frame(id1, "ok"))
		p.send(frame(id2, "y")) // the next reply is the next thing on the stream: there was no second one
		p.expect(frame(id2, "ok"))
		p.end(nil)
		if got := calls.Load(); got != 2 {
			t.Errorf("the handler was called %d times for 2 requests", got)
		}
	})
}

func TestCopyOfAnsweredRequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opt   Options
		reply string // to the copy; "" none
		calls int32
	}{
		{"is answered from memory", Options{}, "ok", 2},
		{"is answered from memory of one", Options{CacheCount: 2}, "ok", 2},
		{"runs again when forgotten", Options{CacheCount: 1}, "ok", 3},
		{"runs again when its bytes were needed", Options{CacheBytes: 3}, "ok", 3},
		{"is dropped when the reply was too large to keep", Options{CacheBytes: 1}, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int32
			p := start(t, func(context.Context, []byte) []byte { calls.Add(1); return []byte("ok") }, tt.opt)
			for _, id := range []string{id1, id2} {
				p.send(frame(id, "x"))
				p.expect(frame(id, "ok"))
			}
			p.send(frame(id1, "x"))
			if tt.reply != "" {
				p.expect(frame(id1, tt.reply))
			}
			p.end(nil)
			if got := calls.Load(); got != tt.calls {
				t.Errorf("%d calls, want %d", got, tt.calls)
			}
		})
	}
}

func TestLimitsOfWhatRuns(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opt    Options
		frames []string
		want   int32
	}{
		{"requests", Options{MaxConcurrent: 2}, []string{frame(id1), frame(id2), frame(id3)}, 2},
		{"bytes", Options{MaxMessage: 16}, []string{frame(id1, "12345678"), frame(id2, "abcdefgh"), frame(id3, "x")}, 2},
		{"one alone", Options{MaxMessage: 20}, []string{frame(id1, "1234567890123456"), frame(id2, "12345678")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int32
				p := start(t, func(context.Context, []byte) []byte {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Second) // of the bubble's clock
					running.Add(-1)
					return nil
				}, tt.opt)
				go io.Copy(io.Discard, p)
				for _, f := range tt.frames {
					p.send(f)
				}
				time.Sleep(time.Minute)
				p.end(nil)
				if got := most.Load(); got != tt.want {
					t.Errorf("%d requests ran at once, want %d", got, tt.want)
				}
			})
		})
	}
}

func TestContextEndsWithConnection(t *testing.T) {
	entered := make(chan struct{})
	p := start(t, func(ctx context.Context, _ []byte) []byte { close(entered); <-ctx.Done(); return nil }, Options{})
	p.send(frame(id1))
	<-entered
	p.end(nil)
}

func TestPanicIsAnswered(t *testing.T) {
	boom := func(context.Context, []byte) []byte { panic("boom") }
	p := start(t, boom, Options{OnPanic: func(v any, stack []byte) []byte {
		if !strings.Contains(string(stack), "TestPanicIsAnswered") {
			t.Errorf("stack does not name the handler:\n%s", stack)
		}
		return fmt.Appendf(nil, "panic: %v", v)
	}})
	p.send(frame(id1))
	p.expect(frame(id1, "panic: boom"))
	p.send(frame(id2))
	p.expect(frame(id2, "panic: boom"))
	p.end(nil)

	p = start(t, boom, Options{})
	p.send(frame(id1))
	p.expect(frame(id1))
	p.end(nil)
}

func TestStopAnswersWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		p := start(t, func(ctx context.Context, _ []byte) []byte {
			close(stop) // as a handler of Shutdown does
			synctest.Wait()
			if ctx.Err() != nil {
				t.Error("the context ended before the reply")
			}
			return []byte("bye")
		}, Options{Stop: stop})
		p.send(frame(id1))
		p.expect(frame(id1, "bye"))
		if _, err := p.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after Stop the connection gives %v, want %v", err, io.EOF)
		}
		p.end(nil)
	})
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		began := time.Now()
		err := Serve(server, echo, Options{})
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != HandshakeTimeout {
			t.Errorf("silent peer: Serve = %v after %v, want a timeout after %v", err, time.Since(began), HandshakeTimeout)
		}
		client.Close()

		p := start(t, echo, Options{})
		p.send(frame(id1))
		time.Sleep(WriteTimeout + time.Second)
		p.end(os.ErrDeadlineExceeded) // nobody reads the reply

		server, client = net.Pipe()
		go io.Copy(io.Discard, server)
		if _, err := NewClient(client, Options{}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("silent server: NewClient = %v, want a timeout", err)
		}
		server.Close()
	})
}

func TestClient(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = Serve(conn, echo, Options{})
		}
		served <- err
	}()
	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, firstChunk - 4, firstChunk, 5*firstChunk + 3} {
		body := bytes.Repeat([]byte{byte(n), 1, 2}, n/3+1)[:n]
		got, err := c.Do(t.Context(), body)
		if err != nil || !bytes.Equal(got, append([]byte("re:"), body...)) {
			t.Errorf("Do of %d bytes = %d bytes, %v", n, len(got), err)
		}
	}
	c.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if _, err := c.Do(t.Context(), nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Do after Close = %v, want %v", err, net.ErrClosed)
	}
}

func TestClientContext(t *testing.T) {
	server, client := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(server, func(ctx context.Context, _ []byte) []byte { <-ctx.Done(); return nil }, Options{})
	}()
	c, err := NewClient(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for range 2 { // the second time the connection is known to be gone
		if _, err := c.Do(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want %v", err, context.DeadlineExceeded)
		}
	}
	<-served
}

func TestClientSkipsOldReplies(t *testing.T) {
	server, client := net.Pipe()
	go func() {
		defer server.Close()
		io.ReadFull(server, make([]byte, helloSize))
		io.WriteString(server, helloRep)
		msg, _ := readFrame(server, MaxMessage)
		io.WriteString(server, frame("\x80\x00\x00\x00", "old")+frame("\x00\x00\x00\x01", string(msg[:4]), "routed"))
		io.WriteString(server, frame(string(msg[:4]), "new"))
	}()
	c, err := NewClient(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Do(t.Context(), []byte("x")); string(got) != "new" {
		t.Errorf("Do = %q, %v, want %q", got, err, "new")
	}
	if _, err := c.Do(t.Context(), []byte("x")); err == nil {
		t.Error("Do on a connection that the server closed succeeds")
	}
}

func TestIsHandshake(t *testing.T) {
	for prefix, want := range map[string]bool{
		helloReq: true, helloReq[:4]: true, helloReq[:3]: false, "": false, "GET ": false, "\x00SP\x01": false,
	} {
		if got := IsHandshake([]byte(prefix)); got != want {
			t.Errorf("IsHandshake(%q) = %v, want %v", prefix, got, want)
		}
	}
}

// FuzzServe: whatever arrives, Serve returns, no body is longer than the limit, and every reply is a whole frame.
func FuzzServe(f *testing.F) {
	f.Add([]byte(helloReq + frame(id1, "a") + frame(id1, "a") + frame("\x00\x00\x00\x01", id2, "b")))
	f.Add([]byte(helloReq + "\x01\x10\x00\x00\x00\x00\x00\x00\x00" + id1))
	f.Add([]byte(helloReq + frame() + frame(id1)[:11]))
	const limit = 64
	f.Fuzz(func(t *testing.T, in []byte) {
		conn := &replay{Reader: bytes.NewReader(in)}
		Serve(conn, func(_ context.Context, body []byte) []byte {
			if len(body) > limit-4 {
				t.Errorf("body of %d bytes, limit %d", len(body), limit)
			}
			if bytes.HasPrefix(body, []byte("panic")) {
				panic("asked for")
			}
			return body
		}, Options{MaxMessage: limit, MaxConcurrent: 2, CacheCount: 3, CacheBytes: 40})
		if conn.sent.Len() == 0 {
			return
		}
		if got := string(conn.sent.Next(helloSize)); got != helloRep {
			t.Fatalf("handshake %q, want %q", got, helloRep)
		}
		for conn.sent.Len() > 0 {
			msg, err := readFrame(&conn.sent, limit)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := split(msg); err != nil {
				t.Fatal(err)
			}
		}
	})
}
