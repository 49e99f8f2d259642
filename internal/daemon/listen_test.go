package daemon

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/nng"
	"gpuemu/internal/wire"
)

func TestSocketIsPrivate(t *testing.T) {
	f := newFixture(t)
	f.listening(t)
	for path, want := range map[string]os.FileMode{
		f.opt.Socket: 0o600, f.opt.Socket + ".lock": 0o600, filepath.Dir(f.opt.Socket): 0o700, f.runDir: 0o700,
		filepath.Join(f.opt.Home, "db"): 0o700,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %o", path, info.Mode(), err, want)
		}
	}
}

func TestOneDaemonPerSocket(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	c := f.listening(t)
	other.opt.Socket = f.opt.Socket
	err := other.ListenAndServe(t.Context())
	wantCode(t, err, AlreadyRunning)
	if err == nil || !strings.Contains(err.Error(), "process") {
		t.Errorf("error %v does not name the process", err)
	}
	if _, err := c.Ping(t.Context()); err != nil {
		t.Errorf("the first daemon: %v", err)
	}
}

// TestStaleSocket: what a daemon that was killed leaves is removed, by the one that holds the lock.
func TestStaleSocket(t *testing.T) {
	f := newFixture(t)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.opt.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	_, err = Dial(t.Context(), f.opt.Socket)
	wantCode(t, err, Unreachable)
	if _, err := f.listening(t).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBadSockets(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, socket := range map[string]string{
		"long": filepath.Join(t.TempDir(), strings.Repeat("x", 120)), "empty": "", "no socket": file,
		"open directory": filepath.Join(open, "s"), "below a file": filepath.Join(file, "s"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.opt.Socket = socket
			err := f.ListenAndServe(t.Context())
			wantCode(t, err, BadSocket)
			if diag.HintOf(err) == "" {
				t.Errorf("error %v has no hint", err)
			}
		})
	}
	_, err := Dial(t.Context(), file)
	wantCode(t, err, Unreachable)
}

func TestForeignSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a socket away")
	}
	f := newFixture(t)
	f.listening(t)
	if err := os.Chown(f.opt.Socket, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := Dial(t.Context(), f.opt.Socket)
	wantCode(t, err, ForeignSocket)
}

func TestPeerOfAnotherUser(t *testing.T) {
	f := newFixture(t)
	f.listening(t)
	conn, err := net.Dial("unix", f.opt.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if pid, err := checkPeerIs(conn, os.Geteuid()); err != nil || pid != os.Getpid() {
		t.Errorf("own process %d: %d, %v", os.Getpid(), pid, err)
	}
	_, err = checkPeerIs(conn, os.Geteuid()+1)
	wantCode(t, err, ForeignSocket)
}

// TestOtherBytes: neither protocol, or half of one, ends the connection and nothing else.
func TestOtherBytes(t *testing.T) {
	f := newFixture(t)
	f.first, f.header = 100*time.Millisecond, 100*time.Millisecond
	c := f.listening(t)
	for name, bytes := range map[string]string{
		"nothing": "", "one byte": "G", "half NNG": "\x00SP", "binary": "\xff\xfe\xfd\xfc\xfb\xfa\r\n\r\n",
		"slow headers": "GET /v1/ping HTTP/1.1\r\nHost: x\r\n", "endless line": strings.Repeat("A", 2*maxHeader),
		"wrong NNG": "\x00SP\x00\x00\x50\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", f.opt.Socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, bytes) // the daemon may hang up before the end
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("the daemon does not hang up: %v", err)
			}
			if strings.Contains(string(answer), "200 OK") {
				t.Errorf("answer %q", answer)
			}
		})
	}
	if _, err := c.Ping(t.Context()); err != nil {
		t.Errorf("Ping after that: %v", err)
	}
}

// TestBothProtocols: NNG and HTTP on one socket.
func TestBothProtocols(t *testing.T) {
	f := newFixture(t)
	c := f.listening(t)
	conn, err := net.Dial("unix", f.opt.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ping := []byte(`{"type":"Ping"}`)
	msg := append([]byte{0x80, 0, 0, 1}, ping...)
	frame := append([]byte{1}, binary.BigEndian.AppendUint64(nil, uint64(len(msg)))...)
	hello := []byte{0, 'S', 'P', 0, 0, 0x30, 0, 0}
	if !nng.IsHandshake(hello) {
		t.Fatal("not a handshake")
	}
	if _, err := conn.Write(append(append(hello, frame...), msg...)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 8+9)
	if _, err := io.ReadFull(conn, answer); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, binary.BigEndian.Uint64(answer[9:]))
	if _, err := io.ReadFull(conn, reply); err != nil {
		t.Fatal(err)
	}
	var pong struct{ Type string }
	if err := json.Unmarshal(reply[4:], &pong); err != nil || pong.Type != "Pong" {
		t.Errorf("reply %q, %v", reply, err)
	}
	if _, err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestRecovery: a handler that panics is our fault, with the stack in the log, and the daemon goes on.
func TestRecovery(t *testing.T) {
	f := newFixture(t)
	var log syncBuffer
	f.opt.Log = slog.New(slog.NewTextHandler(&log, nil))
	f.mux.HandleFunc("GET /v1/boom", func(http.ResponseWriter, *http.Request) { panic("boom") })
	f.mux.HandleFunc("GET /v1/late", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("late")
	})
	for name, c := range map[string]*Client{"socket": f.listening(t), "in process": f.local()} {
		_, err := c.send(t.Context(), http.MethodGet, "/v1/boom", nil)
		wantCode(t, err, Internal)
		resp, err := c.send(t.Context(), http.MethodGet, "/v1/late", nil)
		if err == nil {
			if _, err = io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s: a body that was cut off reads as whole", name)
			}
			resp.Body.Close()
		}
		if _, err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := log.String(); !strings.Contains(text, "boom") || !strings.Contains(text, "listen_test.go") {
		t.Errorf("log without the stack: %s", text)
	}
}

func TestLimitsOfRequests(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]*Client{"socket": f.listening(t), "in process": f.local()} {
		post := func(path, body string) error {
			resp, err := c.sendBody(t.Context(), http.MethodPost, path, jsonType, strings.NewReader(body))
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		for body, want := range map[string]diag.Code{
			"": BadRequest, "{": BadRequest, "{} {}": BadRequest, `{"seed": -1}`: BadRequest, `{"seed": 1.5}`: BadRequest,
			`[]`: BadRequest, `{}`: BadRequest, `{"case": "` + strings.Repeat("x", maxJSON) + `"}`: TooLarge,
		} {
			err := post("/v1/reproduce", body)
			if got := diag.CodeOf(err); got != want {
				t.Errorf("%s: body %q: %v, want %s", name, cut(body, 40), err, want)
			}
		}
		wantCode(t, post("/v1/nothing", "{}"), NotFound)
		wantCode(t, post("/v1/ping", "{}"), WrongMethod)
		wantCode(t, post("/v1/submit", "\xff\xff\xff\xff"), TooLarge)
		wantCode(t, post("/v1/submit", "\x02\x00\x00\x00{}\x00\x00\x00\x00\x00\x00\x00\x80"), TooLarge)
		wantCode(t, post("/v1/submit", "\x02\x00\x00\x00{}\x00\x00\x00\x00\x01\x00\x00\x00"), BadRequest)
		wantCode(t, post("/v1/submit", "\x02\x00"), BadRequest)
		_, err := c.Failures(t.Context(), &wire.FailuresRequest{Limit: MaxListed + 1})
		wantCode(t, err, BadRequest)
		_, err = c.Campaign(t.Context(), "../x")
		if diag.CodeOf(err) == "" {
			t.Errorf("%s: campaign ../x: %v", name, err)
		}
	}
	if f.held != 0 {
		t.Errorf("%d bytes are held", f.held)
	}
	if err := f.hold(f.room() + 1); diag.CodeOf(err) != TooLarge {
		t.Errorf("hold: %v, want %s", err, TooLarge)
	}
	if err := f.hold(f.room() - 1); err != nil {
		t.Error(err)
	}
	if err := f.hold(2); diag.CodeOf(err) != Busy {
		t.Errorf("hold: %v, want %s", err, Busy)
	}
	f.drop(f.room() - 1)
}

func TestTooManyCampaigns(t *testing.T) {
	f := newFixture(t)
	f.slots = MaxCampaigns
	_, err := f.local().Run(t.Context(), f.endless(), nil)
	wantCode(t, err, Busy)
	f.slots = 0
}

// TestCloseInProcess: closing the client ends what runs, and nothing of the process is left.
func TestCloseInProcess(t *testing.T) {
	f := newFixture(t)
	c := InProcess(f.Server)
	if !c.Local() {
		t.Error("Local() = false")
	}
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		var once sync.Once
		_, err := c.Run(context.Background(), f.endless(), func(*wire.Event) { once.Do(func() { close(started) }) })
		done <- err
	}()
	<-started
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := os.Stat(f.runDir); !os.IsNotExist(err) {
		t.Errorf("run directory: %v, want none", err)
	}
	_, err := c.Ping(t.Context())
	wantCode(t, err, Stopping)
}

// TestRunDirsOfDeadProcesses: what a killed process left in the run directory is removed.
func TestRunDirsOfDeadProcesses(t *testing.T) {
	home := t.TempDir()
	dead := filepath.Join(home, "run", "999999999-x")
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want it removed", dead, err)
	}
}

func TestTCP(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	token := strings.Repeat("k", minToken)
	for _, o := range []TCPOptions{
		{Addr: "127.0.0.1:0", CertFile: cert, KeyFile: key, Token: "short"},
		{Addr: "127.0.0.1:0", Token: token},
	} {
		_, err := f.ListenTCP(t.Context(), o)
		wantCode(t, err, BadListener)
	}
	addr, err := f.ListenTCP(t.Context(), TCPOptions{Addr: "127.0.0.1:0", CertFile: cert, KeyFile: key, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal("certificate: ", err)
	}
	trust := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	defer client.CloseIdleConnections()
	for given, want := range map[string]int{"": 401, "Bearer x": 401, token: 401, "Bearer " + token: 200} {
		req, err := http.NewRequest(http.MethodGet, "https://"+addr.String()+"/v1/ping", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", given)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Authorization %q: %d, want %d", given, resp.StatusCode, want)
		}
	}
	plain, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := io.WriteString(plain, "GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(plain).ReadString('\n'); strings.Contains(line, "200") {
		t.Errorf("plain HTTP is answered: %q", line)
	}
}

// selfSigned writes a certificate for localhost.
func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private)
}
