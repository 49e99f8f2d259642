package daemon

// This file implements the tests of peers that connect and do not go on.

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/diag"
)

// generous is how long an answer may take that comes at once on any machine; without the limits it never comes.
const generous = 2 * time.Minute

// rawRequest sends a text over a new connection and returns the answer.
func rawRequest(t *testing.T, conn net.Conn, text string) *http.Response {
	t.Helper()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(generous)); err != nil {
		t.Fatal(err)
	}
	_, unsent := io.WriteString(conn, text) // one that is refused at once may be answered and closed before
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, errors.Join(unsent, err))
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp
}

const pingText = "GET /v1/ping HTTP/1.1\r\nHost: gpuemu\r\n\r\n"

func dialSocket(t *testing.T, f *fixture) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", f.opt.Socket)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// half are requests that are never finished.
var half = []string{
	"", "G", "GET /v1/ping HTTP/1.1\r\nHost: gpuemu\r\n", "\x00SP",
	"POST /v1/failures HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000\r\n\r\n{",
	"POST /v1/submit HTTP/1.1\r\nHost: gpuemu\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x02\x00\x00\x00\r\n",
	"POST /v1/submissions HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1073741824\r\n\r\n\x02\x00\x00\x00{}\x00\x00",
	"\x00SP\x00\x00\x30\x00\x00", "\x00SP\x00\x00\x30\x00\x00\x01\x00\x00\x00\x00\x3f\xff\xff\xff\x80\x00\x00\x01{",
	"GET /v1/nothing HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000\r\n\r\n",
}

// TestOwnerIsServedWhileRequestsHang: three times as many unfinished requests as there are places, all of them from one
// process, and none of them times out while the test runs.
func TestOwnerIsServedWhileRequestsHang(t *testing.T) {
	f := newFixture(t)
	f.first, f.header, f.body = time.Hour, time.Hour, time.Hour
	f.listening(t)
	const most = 1500
	var hanging []net.Conn
	defer func() {
		for _, conn := range hanging {
			conn.Close()
		}
	}()
	for i := range most {
		conn := dialSocket(t, f)
		hanging = append(hanging, conn)
		_, _ = io.WriteString(conn, half[i%len(half)]) // the daemon may have hung up
		if i%100 == 99 {
			if resp := rawRequest(t, dialSocket(t, f), pingText); resp.StatusCode != http.StatusOK {
				t.Fatalf("after %d unfinished requests: %s", i+1, resp.Status)
			}
		}
	}
	ownerIsServed(t, f)
	if open := connections(f); open < maxOfProcess/2 || open > maxOfProcess {
		t.Errorf("%d connections are open, want those of %d requests that hang", open, maxOfProcess)
	}
}

// ownerIsServed asks what an owner asks. Where no limit of time of the daemon's can pass, an answer says that it waited
// for nobody else: how long it took is the machine's doing, and what make bench measures.
func ownerIsServed(t *testing.T, f *fixture) {
	t.Helper()
	const cases = `{"op": "relu", "seed": "7", "count": 2}`
	for _, text := range []string{
		pingText, "GET /v1/status HTTP/1.1\r\nHost: gpuemu\r\n\r\n",
		fmt.Sprintf("POST /v1/cases HTTP/1.1\r\nHost: gpuemu\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(cases), cases),
	} {
		if resp := rawRequest(t, dialSocket(t, f), text); resp.StatusCode != http.StatusOK {
			t.Fatalf("%.30q: %s", text, resp.Status)
		}
	}
	conn := dialSocket(t, f)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(generous)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "\x00SP\x00\x00\x30\x00\x00"+ // NNG: hello, length, id, message
		"\x01\x00\x00\x00\x00\x00\x00\x00\x13\x80\x00\x00\x01"+`{"type":"Ping"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 8+9)); err != nil {
		t.Fatalf("a Ping of protocol v1: %v", err)
	}
}

// TestOwnerIsServedBesideSlowClients: 250 clients that send a byte now and then, as many as have places, none of which
// is hung up on: the owner needs nothing of theirs.
func TestOwnerIsServedBesideSlowClients(t *testing.T) {
	f := newFixture(t)
	f.first, f.header, f.body = time.Hour, time.Hour, time.Hour
	f.listening(t)
	const most, rounds = 250, 10
	texts := []string{
		"POST /v1/failures HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000\r\n\r\n{",
		"POST /v1/submit HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000\r\n\r\n\xff\x00\x00\x00{",
		"GET /v1/ping HTTP/1.1\r\nHost: gpuemu\r\nX-Long: ",
	}
	var slow []net.Conn
	defer func() {
		for _, conn := range slow {
			conn.Close()
		}
	}()
	for i := range most {
		slow = append(slow, dialSocket(t, f))
		if _, err := io.WriteString(slow[i], texts[i%len(texts)]); err != nil {
			t.Fatal(err)
		}
	}
	for range rounds {
		for i, conn := range slow {
			if _, err := io.WriteString(conn, " "); err != nil {
				t.Fatalf("client %d is hung up on: %v", i, err)
			}
		}
		ownerIsServed(t, f)
	}
	if open := connections(f); open < most {
		t.Errorf("%d connections are open, want %d slow ones", open, most)
	}
}

// connections counts those of the socket.
func connections(f *fixture) int {
	f.onSocket.mu.Lock()
	defer f.onSocket.mu.Unlock()
	return len(f.onSocket.open)
}

// TestRemotePeersTakeNoPlaceOfTheSocket: neither do they lock out each other.
func TestRemotePeersTakeNoPlaceOfTheSocket(t *testing.T) {
	f := newFixture(t)
	f.first, f.header, f.body = time.Hour, time.Hour, time.Hour
	f.listening(t)
	cert, key := selfSigned(t, t.TempDir())
	token := strings.Repeat("k", minToken)
	addr, err := f.ListenTCP(t.Context(), TCPOptions{Addr: "127.0.0.1:0", CertFile: cert, KeyFile: key, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxRemote {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "\x16\x03\x01") // the beginning of a handshake
	}
	if resp := rawRequest(t, dialSocket(t, f), pingText); resp.StatusCode != http.StatusOK {
		t.Errorf("over the socket: %s", resp.Status)
	}
	for given, want := range map[string]int{"Bearer " + token: http.StatusOK, "Bearer x": http.StatusUnauthorized} {
		conn, err := tls.Dial("tcp", addr.String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		// Whoever lacks the token is refused without a byte of the body.
		text := "GET /v1/ping HTTP/1.1\r\nHost: gpuemu\r\nAuthorization: " + given + "\r\n\r\n"
		if want != http.StatusOK {
			text = strings.Replace(text, "GET /v1/ping HTTP/1.1", "POST /v1/run HTTP/1.1\r\nContent-Length: 1000", 1)
		}
		if resp := rawRequest(t, conn, text); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", given, resp.Status, want)
		}
	}
}

// TestSlowBody: a body that does not come ends with an answer, and is not waited for where nobody wants it.
func TestSlowBody(t *testing.T) {
	f := newFixture(t)
	f.body = 50 * time.Millisecond
	f.listening(t)
	for _, tt := range []struct {
		method, path string
		status       int
		code         diag.Code
	}{
		{"POST", "/v1/failures", http.StatusRequestTimeout, TooSlow},
		{"POST", "/v1/submit", http.StatusRequestTimeout, TooSlow},
		{"POST", "/v1/submissions", http.StatusRequestTimeout, TooSlow},
		{"POST", "/v1/emulate", http.StatusRequestTimeout, TooSlow},
		{"POST", "/v1/ping", http.StatusMethodNotAllowed, WrongMethod},
		{"GET", "/v1/nothing", http.StatusNotFound, NotFound},
		{"GET", "/v1/ping", http.StatusOK, ""},
	} {
		resp := rawRequest(t, dialSocket(t, f), fmt.Sprintf("%s %s HTTP/1.1\r\nHost: gpuemu\r\nContent-Length: 1000\r\n\r\n{",
			tt.method, tt.path))
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != tt.status || !strings.Contains(string(text), string(tt.code)) || !resp.Close {
			t.Errorf("%s %s: %s, close %v: %s, want %d and the end of the connection", tt.method, tt.path, resp.Status,
				resp.Close, text, tt.status)
		}
	}
}

// TestRefusedConnection: where all connections are in use, a new one gets an answer at once.
func TestRefusedConnection(t *testing.T) {
	f := newFixture(t)
	f.onSocket = newPeers(2, 2)
	entered, held := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release() // the server's end waits for it
	f.mux.HandleFunc("GET /v1/hold", func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-held
		w.WriteHeader(http.StatusOK)
	})
	f.listening(t).Close()
	for connections(f) > 0 { // that of the client
		runtime.Gosched()
	}
	answers := make(chan int, 2)
	for range 2 {
		conn := dialSocket(t, f)
		go func() { answers <- rawRequest(t, conn, strings.Replace(pingText, "ping", "hold", 1)).StatusCode }()
		<-entered
	}
	resp := rawRequest(t, dialSocket(t, f), pingText)
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), string(Busy)) {
		t.Errorf("%s: %s, want %s", resp.Status, text, Busy)
	}
	release()
	for range 2 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a request that was executed got %d", code)
		}
	}
}

// TestWhoMakesRoom: of the connections that the daemon waits on, the one on which nothing moved for longest, of the
// peer that has most.
func TestWhoMakesRoom(t *testing.T) {
	p := newPeers(5, 4)
	admit := func(peer string) *peerConn {
		t.Helper()
		conn, other := net.Pipe()
		t.Cleanup(func() { conn.Close(); other.Close() })
		return p.admit(conn, peer)
	}
	gone := func(c *peerConn) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, ok := p.open[c]
		return !ok
	}
	owner := admit("owner")
	var crowd []*peerConn
	for range 4 {
		crowd = append(crowd, admit("crowd"))
	}
	crowd[0].serve()
	crowd[1].touch()
	admit("crowd")
	if !gone(crowd[2]) || gone(crowd[0]) || gone(crowd[1]) || gone(owner) {
		t.Error("a peer with all its places does not push out its own connection on which nothing moved for longest")
	}
	admit("third")
	if !gone(crowd[3]) || gone(owner) {
		t.Error("where all places are taken, the peer with most connections does not lose one")
	}
	if n := p.of["crowd"]; n != 3 {
		t.Errorf("the crowd has %d connections, want 3", n)
	}
	owner.Close()
	owner.Close()
	if n, ok := p.of["owner"]; ok {
		t.Errorf("a connection that was closed counts: %d", n)
	}
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:7": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:8": "2001:db8:1:2::/64",
	} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(a); got != want {
			t.Errorf("addressOf(%s) = %s, want %s", addr, got, want)
		}
	}
}
