package nng

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Defaults of Options.
const (
	// MaxMessage is the longest message: three tensors of 256 MiB in base64. Larger ones go through the HTTP API, which
	// takes tensors by path.
	MaxMessage = 1 << 30
	// MaxConcurrent is how many requests of one connection run at once. A client of the published library has one; the
	// rest is for programs that use NNG contexts.
	MaxConcurrent = 16
	// HandshakeTimeout is how long a peer may take to say who it is. Local peers do it at once.
	HandshakeTimeout = 5 * time.Second
	// WriteTimeout is how long a peer may leave one reply unread. NNG's own clients read all the time.
	WriteTimeout = 2 * time.Minute
	// CacheCount is how many answered requests are remembered. A request is sent again after 60 s without a reply, so
	// the second copy comes at most one round trip after the reply went out.
	CacheCount = 64
	// CacheBytes is how many bytes of replies are kept to answer with again.
	CacheBytes = 16 << 20
)

// Handler answers one request. ctx ends when the connection does.
type Handler func(ctx context.Context, body []byte) []byte

// Options are the limits of a connection. A zero field means the constant of the same name.
type Options struct {
	MaxMessage       int64
	MaxConcurrent    int
	HandshakeTimeout time.Duration
	WriteTimeout     time.Duration
	CacheCount       int
	CacheBytes       int

	// OnPanic makes the reply of a request whose handler panicked. Without it the reply is empty.
	OnPanic func(value any, stack []byte) []byte
	// Stop, once closed, makes Serve read no further message, answer those it has, and return nil.
	Stop <-chan struct{}
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxMessage, MaxMessage)
	setDefault(&o.MaxConcurrent, MaxConcurrent)
	setDefault(&o.HandshakeTimeout, HandshakeTimeout)
	setDefault(&o.WriteTimeout, WriteTimeout)
	setDefault(&o.CacheCount, CacheCount)
	setDefault(&o.CacheBytes, CacheBytes)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// server is one connection. Its goroutines: the reader, which is the caller of Serve, reads and admits requests; one
// per running request calls the handler and writes the reply.
type server struct {
	conn    net.Conn
	handler Handler
	opt     Options
	cancel  context.CancelCauseFunc
	writing sync.Mutex // held while a reply is written

	mu      sync.Mutex
	freed   sync.Cond // signalled when a request ends
	running int       // guarded by mu, as all below
	bytes   int64     // of the bodies of running requests
	seen    *memory
}

// Serve answers the requests of one connection until the peer closes it, then closes it as well. It returns nil when
// the peer ended between two messages or opt.Stop was closed.
//
// Handlers run concurrently, at most opt.MaxConcurrent, and with bodies of opt.MaxMessage bytes in all unless one alone
// has more; beyond that nothing is read. Replies go out in the order in which handlers end. REQ sends a request again,
// same id and same bytes, when no reply came for 60 s: such a copy is not executed. While the first runs it is dropped,
// because one reply is enough; once the first is answered the same reply is sent again, or nothing where it was too
// large to keep, because the stream has delivered it already.
//
// The context of the handlers is cancelled when the connection breaks. While the limits keep the reader waiting with a
// message in hand this is seen only when a reply is written. Serve returns after the last handler has.
func Serve(conn net.Conn, h func(ctx context.Context, body []byte) []byte, opt Options) error {
	defer conn.Close()
	s := &server{conn: conn, handler: h, opt: opt.withDefaults()}
	s.freed.L = &s.mu
	s.seen = newMemory(s.opt.CacheCount, s.opt.CacheBytes)

	if err := conn.SetDeadline(time.Now().Add(s.opt.HandshakeTimeout)); err != nil {
		return err
	}
	// Reading comes first: a peer that says nothing, or something else, gets no answer.
	in := bufio.NewReader(conn)
	if err := readHello(in, protoReq); err != nil {
		return err
	}
	if _, err := conn.Write(hello(protoRep)); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	defer s.stopReading()()
	err := s.read(ctx, in)
	if errors.Is(err, os.ErrDeadlineExceeded) { // only Stop sets one for reading
		err = nil
	} else {
		cancel(err)
		err = context.Cause(ctx) // where a reply could not be written, that is the reason for all that followed
	}
	s.admit(0, true)
	cancel(nil)
	if err == io.EOF {
		return nil
	}
	return err
}

// stopReading makes a closed opt.Stop interrupt the reader. The result ends the watch.
func (s *server) stopReading() func() {
	if s.opt.Stop == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.opt.Stop:
			s.conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only, which interrupts as well
		case <-done:
		}
	}()
	return func() { close(done); <-ended }
}

// read reads requests and starts their handlers until the stream ends.
func (s *server) read(ctx context.Context, in io.Reader) error {
	for {
		msg, err := readFrame(in, s.opt.MaxMessage)
		if err != nil {
			return err
		}
		header, body, err := split(msg)
		if err != nil {
			return err
		}
		if header == nil {
			continue
		}
		key := s.seen.key(header, body)
		s.mu.Lock()
		reply, fresh := s.seen.begin(key)
		s.mu.Unlock()
		switch {
		case fresh:
			s.admit(int64(len(body)), false)
			go s.run(ctx, key, header, body)
		case reply != nil:
			s.write(header, reply)
		}
	}
}

// admit waits until a request of n bytes may run, and counts it as running. With drain it waits until none runs.
func (s *server) admit(n int64, drain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 && (drain || s.running >= s.opt.MaxConcurrent || s.bytes+n > s.opt.MaxMessage) {
		s.freed.Wait()
	}
	if !drain {
		s.running++
		s.bytes += n
	}
}

// run executes and answers one request.
func (s *server) run(ctx context.Context, key key, header, body []byte) {
	reply := s.call(ctx, body)
	s.mu.Lock()
	s.seen.end(key, reply)
	s.mu.Unlock()
	s.write(header, reply)
	s.mu.Lock()
	s.running--
	s.bytes -= int64(len(body))
	s.mu.Unlock()
	s.freed.Broadcast()
}

// call runs the handler; a panic becomes what OnPanic makes of it.
func (s *server) call(ctx context.Context, body []byte) (reply []byte) {
	defer func() {
		if v := recover(); v != nil && s.opt.OnPanic != nil {
			reply = s.opt.OnPanic(v, debug.Stack())
		}
	}()
	return s.handler(ctx, body)
}

// write sends one reply. If that fails the connection is of no more use: closing it ends the reader.
func (s *server) write(header, reply []byte) {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.conn.SetWriteDeadline(time.Now().Add(s.opt.WriteTimeout))
	if err == nil {
		err = writeFrame(s.conn, header, reply)
	}
	if err != nil {
		s.cancel(fmt.Errorf("reply of %d bytes: %w", len(reply), err))
		s.conn.Close()
	}
}
