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
	Patience         time.Duration // see Pace
	CacheCount       int
	CacheBytes       int

	// Admit, where there is one, is asked before a message of n bytes is read. The result is called when the request is
	// answered. With an error Refuse makes the reply, and the connection ends.
	Admit  func(n int64) (release func(), err error)
	Refuse func(err error) []byte

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
	setDefault(&o.Patience, Patience)
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
	pace    *Pace      // of the message that is being read; nil between two. It belongs to the reader

	mu      sync.Mutex
	freed   sync.Cond // signalled when a request ends
	running int       // guarded by mu, as all below
	bytes   int64     // of the bodies of running requests
	seen    *memory
	stopped bool // nothing more is read: deadlines stay as they are
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
	in := bufio.NewReader(paced{s})
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
	if s.isStopped() && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrTooSlow)) {
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
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stopped = true
			s.conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only, which interrupts as well
		case <-done:
		}
	}()
	return func() { close(done); <-ended }
}

func (s *server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// readBy sets the deadline for reading, unless the reader is interrupted.
func (s *server) readBy(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	return s.conn.SetReadDeadline(t)
}

// paced is the connection as the reader sees it: within a message the peer has to go on.
type paced struct{ *server }

func (p paced) Read(b []byte) (int, error) {
	if p.pace == nil {
		return p.conn.Read(b)
	}
	return p.pace.Read(p.conn, b)
}

// request is a message that was read.
type request struct {
	key          key
	header, body []byte
	release      func() // gives back what Admit gave
}

// read reads requests and starts their handlers until the stream ends.
func (s *server) read(ctx context.Context, in *bufio.Reader) error {
	for {
		r, err := s.next(in)
		if err != nil {
			return err
		}
		if r.header == nil {
			r.release()
			continue
		}
		r.key = s.seen.key(r.header, r.body)
		s.mu.Lock()
		reply, fresh := s.seen.begin(r.key)
		s.mu.Unlock()
		if fresh {
			s.admit(int64(len(r.body)), false)
			go s.run(ctx, r)
			continue
		}
		r.release()
		if reply != nil {
			s.write(r.header, reply)
		}
	}
}

// next reads one message. A peer may say nothing for as long as it likes before it, not within it.
func (s *server) next(in *bufio.Reader) (*request, error) {
	if _, err := in.Peek(1); err != nil {
		return nil, err
	}
	s.pace = NewPace(s.opt.Patience, s.readBy)
	n, err := readHead(in, s.opt.MaxMessage)
	if err != nil {
		return nil, err
	}
	r := &request{release: func() {}}
	if s.opt.Admit != nil {
		if r.release, err = s.opt.Admit(int64(n)); err != nil {
			s.refuse(in, n, err)
			return nil, err
		}
	}
	msg, err := readBody(in, n)
	if err == nil {
		r.header, r.body, err = split(msg)
	}
	if err == nil {
		err = s.pace.End()
	}
	if s.pace = nil; err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// refuse answers a message of n bytes that is not read: of it no more is needed than the header.
func (s *server) refuse(in *bufio.Reader, n int, why error) {
	begin := make([]byte, min(n, 4*(maxHops+1)))
	if _, err := io.ReadFull(in, begin); err != nil || s.opt.Refuse == nil {
		return
	}
	if header, _, err := split(begin); err == nil && header != nil {
		s.write(header, s.opt.Refuse(why))
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
func (s *server) run(ctx context.Context, r *request) {
	reply := s.call(ctx, r.body)
	s.mu.Lock()
	s.seen.end(r.key, reply)
	s.mu.Unlock()
	s.write(r.header, reply)
	r.release()
	s.mu.Lock()
	s.running--
	s.bytes -= int64(len(r.body))
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
