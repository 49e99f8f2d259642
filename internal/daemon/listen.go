// This file implements the socket: who may listen on it, who may connect, and which protocol a connection speaks.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/nng"
)

const (
	// firstBytes is how long a peer may take to send the bytes that tell the protocol. Local peers do it at once.
	firstBytes = 5 * time.Second
	// headerTimeout is how long the headers of a request may take.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection is kept for the next request.
	idleTimeout = 2 * time.Minute
	// maxHeader is how large the headers of a request may be: ours are a few hundred bytes.
	maxHeader = 64 << 10
	// stopTimeout is how long requests may take to end when the daemon does. Campaigns end first: what they finished is
	// stored.
	stopTimeout = 10 * time.Second
)

// ListenAndServe serves the socket until ctx ends or a client asks for the end, and then returns nil. Running campaigns
// are cancelled and kept as interrupted. Close must still be called.
func (s *Server) ListenAndServe(ctx context.Context) error {
	l, err := s.listen()
	if err != nil {
		return err
	}
	defer l.release()
	defer context.AfterFunc(ctx, s.shut)()
	s.opt.Log.Info("daemon listens", "socket", l.path, "version", s.opt.Version, "home", s.opt.Home, "pid", os.Getpid())
	queue := &connQueue{addr: l.Addr(), conns: make(chan net.Conn), done: s.ctx.Done()}
	server := s.httpServer(s.Handler())
	served := make(chan error, 1)
	go func() { served <- server.Serve(queue) }()
	var peers sync.WaitGroup // connections that are being told apart, and those of v1
	peers.Go(func() { s.accept(l, queue, &peers) })
	if s.opt.Idle > 0 {
		peers.Go(s.retire)
	}
	<-s.ctx.Done()
	l.Close()
	s.opt.Log.Info("daemon stops")
	stopped, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopped); err != nil {
		s.opt.Log.Warn("requests were cut off", "error", err)
		_ = server.Close() // what Shutdown has said is all there is to say
	}
	<-served
	peers.Wait()
	return nil
}

// httpServer is net/http's server with our limits.
func (s *Server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: s.header, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug), ConnContext: withPeer,
	}
}

// listener is the socket with the lock that makes it ours.
type listener struct {
	*net.UnixListener
	path string
	lock *os.File
}

// release removes the socket and then gives up the lock. The lock file stays: removing it would let two daemons each
// hold a lock of the same name.
func (l *listener) release() {
	l.Close()
	_ = os.Remove(l.path) // one that stays is removed by the next daemon
	l.lock.Close()
}

// listen takes the lock and makes the socket.
func (s *Server) listen() (*listener, error) {
	path, err := filepath.Abs(s.opt.Socket)
	if err != nil || s.opt.Socket == "" {
		return nil, diag.Errorf(BadSocket, "set GPUEMU_SOCKET", "there is no path for the socket")
	}
	if len(path) > maxSocketPath {
		return nil, diag.Errorf(BadSocket, "set GPUEMU_SOCKET to a shorter path, such as one below $XDG_RUNTIME_DIR",
			"the path of the socket has %d bytes, the system allows %d: %s", len(path), maxSocketPath, path)
	}
	if err := socketDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &listener{l, path, lock}, nil
}

// socketDir makes the directory of the socket, or makes sure that nobody else can put something in its place.
func socketDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diag.Errorf(BadSocket, "set GPUEMU_SOCKET to a place of your own", "%w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return diag.Errorf(BadSocket, "set GPUEMU_SOCKET to a place of your own", "%w", err)
	}
	if uid, known := ownerOf(info); known && uid != os.Geteuid() {
		return foreign("the socket's directory "+dir, uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return diag.Errorf(BadSocket, "chmod 700 "+dir+", or set GPUEMU_SOCKET to a place of your own",
			"others may write to the socket's directory %s (mode %o)", dir, mode)
	}
	return nil
}

// takeLock takes the lock of a socket. The file has the number of the process that holds it.
func takeLock(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, diag.Errorf(BadSocket, "set GPUEMU_SOCKET to a place of your own", "%w", err)
	}
	ok, err := lockFile(f)
	switch {
	case err != nil:
		f.Close()
		return nil, diag.Errorf(BadSocket, "put the socket on a local file system", "lock %s: %w", name, err)
	case !ok:
		holder, readErr := io.ReadAll(io.LimitReader(f, 20))
		f.Close()
		by := ""
		if pid := strings.TrimSpace(string(holder)); readErr == nil && pid != "" {
			by = " (process " + pid + ")"
		}
		return nil, diag.Errorf(AlreadyRunning, "gpuemu daemon stop ends it", "a daemon serves %s already%s", path, by)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
		if err != nil {
			f.Close()
			return nil, diag.Errorf(BadSocket, "", "%w", err)
		}
	}
	return f, nil
}

// bind makes the socket. The lock is held, so that a socket that is there belongs to nobody.
func bind(path string) (*net.UnixListener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, diag.Errorf(BadSocket, "", "%w", err)
	case info.Mode()&os.ModeSocket == 0:
		return nil, diag.Errorf(BadSocket, "remove it, or set GPUEMU_SOCKET to another path",
			"%s is there and is no socket", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, diag.Errorf(BadSocket, "", "%w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, diag.Errorf(BadSocket, "", "%w", err)
	}
	l.SetUnlinkOnClose(false) // release does it, with the lock held
	// Until now the mode was that of the umask; every peer is checked anyway.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, diag.Errorf(BadSocket, "", "%w", err)
	}
	return l, nil
}

// accept takes connections until the listener is closed.
func (s *Server) accept(l net.Listener, queue *connQueue, peers *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most likely: that passes
			s.opt.Log.Warn("accept", "error", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-s.ctx.Done():
				return
			}
			continue
		}
		process, err := checkPeer(conn)
		if err != nil {
			s.opt.Log.Warn("a connection was refused", "error", err)
			conn.Close()
			continue
		}
		c := s.onSocket.admit(conn, strconv.Itoa(process))
		if c == nil {
			s.opt.Log.Warn("too many connections", "process", process)
			refuse(conn, tooMany(maxConnections))
			continue
		}
		peers.Go(func() { s.tell(c, queue) })
	}
}

// tell finds out which protocol a connection speaks and serves it, or hands it on.
func (s *Server) tell(c *peerConn, queue *connQueue) {
	prefix := make([]byte, nng.PrefixSize)
	err := c.SetReadDeadline(time.Now().Add(s.first))
	stop := context.AfterFunc(s.ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) }) // after the other deadline
	if err == nil {
		_, err = io.ReadFull(c.Conn, prefix)
	}
	if !stop() || err != nil || c.SetReadDeadline(time.Time{}) != nil {
		c.Close()
		return
	}
	c.first = prefix
	if !nng.IsHandshake(prefix) {
		queue.put(c)
		return
	}
	err = nng.Serve(c, func(ctx context.Context, body []byte) []byte {
		c.serve()
		defer c.await()
		return s.serveV1(ctx, body)
	}, s.v1Options())
	if err != nil {
		s.opt.Log.Debug("v1 connection", "error", err)
	}
}

// v1Options are the limits of a connection that speaks protocol v1.
func (s *Server) v1Options() nng.Options {
	return nng.Options{Stop: s.ctx.Done(), Patience: s.patience.body, Admit: func(n int64) (func(), error) {
		return s.lend(v1Bytes * n)
	}, Refuse: func(err error) []byte { return v1Fault(v1Text(err)) }, OnPanic: func(value any, stack []byte) []byte {
		s.opt.Log.Error("a v1 request panicked", "panic", fmt.Sprint(value), "stack", string(stack))
		return v1Fault("fault of gpuemu: the request could not be answered; the daemon's log has the details")
	}}
}

// checkPeer makes sure that the process at the other end is the user's own, and returns its number.
func checkPeer(conn net.Conn) (process int, err error) {
	return checkPeerIs(conn, os.Geteuid())
}

func checkPeerIs(conn net.Conn, want int) (process int, err error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, diag.Errorf(Internal, "", "a connection of type %T has no peer to check", conn)
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	uid := -1
	var credErr error
	if err := raw.Control(func(fd uintptr) { uid, process, credErr = peerOf(int(fd)) }); err != nil || credErr != nil {
		return 0, fmt.Errorf("who the peer is: %w", errors.Join(err, credErr))
	}
	if uid != want {
		return 0, foreign("the process at the other end of the socket", uid)
	}
	return process, nil
}

// connQueue is the listener of net/http: connections that turned out to speak HTTP.
type connQueue struct {
	addr  net.Addr
	conns chan net.Conn
	done  <-chan struct{}
}

func (q *connQueue) put(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.done:
		c.Close()
	}
}

// Accept implements net.Listener.
func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; the queue ends with the server.
func (q *connQueue) Close() error { return nil }

// Addr implements net.Listener.
func (q *connQueue) Addr() net.Addr { return q.addr }
