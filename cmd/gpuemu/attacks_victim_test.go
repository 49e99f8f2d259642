//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"gpuemu/internal/testkit"
)

// This file implements the daemon that is attacked, and the invariants that are looked at after each attack.

const (
	// usualPeak is how much memory an attack may cost, all in all.
	usualPeak = 512 << 20
	// victimLimit is what the system gives a daemon: an attack that takes everything ends the daemon, not the machine.
	victimLimit = 4 << 30
	// victimToken is the token of the TCP listener.
	victimToken = "0123456789abcdef0123456789abcdef"
	// maxReply is how much of an answer is read: the attacker need not be patient.
	maxReply = 16 << 20
)

// victim is a daemon with a world around it.
type victim struct {
	t         *testing.T
	base      string
	home      string // GPUEMU_HOME
	elsewhere string // files of the owner that are no business of the daemon's, and its working directory
	mine      string // files of the attacker, which alone may change
	socket    string
	address   string // of the TCP listener
	pid       int
	ended     chan error
	before    map[string]string // the world outside of home and mine

	mu  sync.Mutex
	log bytes.Buffer // guarded by mu
}

// startVictim starts a daemon and waits until it says that it listens.
func startVictim(t *testing.T, tcp bool) *victim {
	t.Helper()
	base, err := os.MkdirTemp("", "ga") // short: paths of sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := func(name string) string { return filepath.Join(base, name) }
	v := &victim{t: t, base: base, home: dir("home"), elsewhere: dir("elsewhere"), mine: dir("mine"),
		socket: filepath.Join(dir("home"), "gpuemu.sock"), ended: make(chan error, 1)}
	for _, name := range []string{"home", "elsewhere", "mine", "user", "tmp"} {
		if err := os.Mkdir(dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	v.write(filepath.Join(v.elsewhere, "secret.txt"), "the secret of the owner\n")
	v.write(filepath.Join(v.elsewhere, "weights.bin"), strings.Repeat("w", 1<<16))
	args := []string{"gpuemu", "daemon", "start", "--verbose"}
	if tcp {
		args = append(args, v.tcpFlags()...)
	}
	if runtime.GOOS == "linux" {
		limit := int64(victimLimit)
		if testkit.RaceDetector {
			limit *= 6 // its shadow, four times the memory that it watches, is data, too
		}
		args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -d %d; exec "$@"`, limit>>10), "sh"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = v.elsewhere
	cmd.Env = append(os.Environ(), "GPUEMU_HOME="+v.home, "GPUEMU_SOCKET="+v.socket, "HOME="+dir("user"),
		"TMPDIR="+dir("tmp"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.pid = cmd.Process.Pid
	ready := make(chan struct{})
	go func() {
		v.readLog(stderr, ready)
		v.ended <- cmd.Wait()
		close(v.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-v.ended
	})
	select {
	case <-ready:
	case err := <-v.ended:
		t.Fatalf("the daemon does not start: %v\n%s", err, v.logged())
	}
	v.before = v.world()
	return v
}

// readLog keeps what the daemon logs, and closes ready when the socket is there.
func (v *victim) readLog(r io.Reader, ready chan struct{}) {
	lines := bufio.NewReader(r)
	for up := false; ; {
		line, err := lines.ReadString('\n')
		v.mu.Lock()
		v.log.WriteString(line)
		v.mu.Unlock()
		if _, rest, found := strings.Cut(line, `msg="daemon listens" address=`); found {
			v.address = strings.TrimSpace(rest)
		}
		if strings.Contains(line, `msg="daemon listens" socket=`) && !up {
			up = true
			close(ready)
		}
		if err != nil {
			return
		}
	}
}

func (v *victim) logged() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.log.String()
}

// tcpFlags makes a certificate and a token, and returns the flags that name them.
func (v *victim) tcpFlags() []string {
	v.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		v.t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		v.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		v.t.Fatal(err)
	}
	file := func(name string, text []byte) string {
		path := filepath.Join(v.mine, name)
		v.write(path, string(text))
		return path
	}
	return []string{"--listen", "127.0.0.1:0",
		"--tls-cert", file("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"--tls-key", file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		"--token-file", file("token", []byte(victimToken))}
}

func (v *victim) write(path, text string) {
	v.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// world describes every file outside of the daemon's home and the attacker's directory.
func (v *victim) world() map[string]string {
	v.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(v.base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == v.home || path == v.mine {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d bytes %x", len(text), sha256.Sum256(text))
		}
		found[path] = what
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return found
}

// check looks at the invariants. Connections that the attack holds are still open.
func (v *victim) check(t *testing.T, peak int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*answerLimit)
	defer cancel()
	said, err := exec.CommandContext(ctx, "owner", v.socket).CombinedOutput()
	if err != nil {
		t.Errorf("the owner is not served: %v: %s", err, said)
	}
	select {
	case err := <-v.ended:
		text := v.logged()
		t.Fatalf("the daemon has ended: %v\n%s", err, text[:min(len(text), 4000)])
	default:
	}
	v.checkPeak(t, peak)
	if after := v.world(); !maps.Equal(v.before, after) {
		for path, what := range after {
			if v.before[path] != what {
				t.Errorf("outside of its home %s was %q, is %q", strings.TrimPrefix(path, v.base), v.before[path], what)
			}
		}
		for path := range v.before {
			if after[path] == "" {
				t.Errorf("outside of its home %s is gone", strings.TrimPrefix(path, v.base))
			}
		}
	}
	v.checkLog(t)
}

// checkPeak holds the daemon to a budget of memory.
func (v *victim) checkPeak(t *testing.T, limit int64) {
	t.Helper()
	switch {
	case runtime.GOOS != "linux":
		t.Log("memory is not looked at: only Linux says how much a process has had")
		return
	case testing.Short():
		return // the race detector runs this, and takes several times the memory
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if kib<<10 > limit {
		t.Errorf("the daemon had %d MiB, at most %d are allowed", kib>>10, limit>>20)
	}
	t.Logf("peak %d MiB", kib>>10)
}

// checkLog: a request that panics is a fault even where the daemon goes on, and nobody writes lines of the log but the
// daemon.
func (v *victim) checkLog(t *testing.T) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(v.logged(), "\n"), "\n") {
		short := line[:min(len(line), 1000)]
		switch {
		case strings.Contains(line, "panicked"):
			t.Errorf("a request panicked: %s", short)
		case !strings.HasPrefix(line, "time="):
			t.Errorf("a line of the log is not the daemon's: %q", short)
		case strings.ContainsFunc(line, unicode.IsControl), strings.Contains(line, "\u202e"), !utf8.ValidString(line):
			t.Errorf("a line of the log can fool a terminal: %q", short)
		}
	}
}

// dial connects to the socket. The connection is open until the test ends.
func (v *victim) dial() net.Conn {
	v.t.Helper()
	conn, err := dialSocket(v.socket)
	if err != nil {
		v.t.Fatalf("dial: %v", err)
	}
	v.t.Cleanup(func() { conn.Close() })
	return conn
}

// dialTLS connects to the TCP listener.
func (v *victim) dialTLS() net.Conn {
	v.t.Helper()
	conn, err := tls.Dial("tcp", v.address, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter here
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(answerLimit))
	}
	if err != nil {
		v.t.Fatalf("dial: %v", err)
	}
	v.t.Cleanup(func() { conn.Close() })
	return conn
}

// reply is what came back.
type reply struct {
	status int // 0: the connection was closed without an answer
	header http.Header
	body   []byte
	err    error // of reading
}

// send sends bytes on a new connection, as far as they are taken, and reads the answer.
func (v *victim) send(payload ...string) reply {
	v.t.Helper()
	return exchange(v.dial(), payload...)
}

// sendWhole is exchange for what may claim that more comes: the daemon sees that nothing does.
func sendWhole(conn net.Conn, payload string) reply {
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, payload)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	return readReply(bufio.NewReader(conn))
}

// exchange sends bytes and reads one answer. What is not taken is not sent: the answer may come before.
func exchange(conn net.Conn, payload ...string) reply {
	defer conn.Close()
	go func() {
		for _, text := range payload {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}()
	return readReply(bufio.NewReader(conn))
}

func readReply(r *bufio.Reader) reply {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	return reply{status: resp.StatusCode, header: resp.Header, body: body, err: err}
}

// late reports whether nothing came for answerLimit.
func (r reply) late() bool { return errors.Is(r.err, os.ErrDeadlineExceeded) }

func (r reply) String() string {
	return fmt.Sprintf("status %d, error %v, body %.300q", r.status, r.err, r.body)
}
