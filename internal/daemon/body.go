// This file implements the bodies of requests that come over a socket: they may take long, as long as they move.

package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/nng"
)

const (
	// drained is how much of a body that nobody wanted is read after a good answer, so that the connection can be used
	// again.
	drained = 64 << 10
	// linger is how long a peer whose request was refused may go on sending: it reads the answer afterwards.
	linger = time.Second
)

// withPeer puts the connection of a request into its context.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if c, ok := conn.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, c)
	}
	return ctx
}

// pacedBody is the body of a request over a socket.
type pacedBody struct {
	io.ReadCloser
	conn  *peerConn
	pace  *nng.Pace
	ended bool
	// chunked: a body in chunks may come with a length as well, which net/http drops. What stands in front of the daemon
	// may have gone by that length, and have taken for a body what would be the next request here.
	chunked bool
}

// paced returns the body of a request with its limits of time; nil where it has none, or comes from this process.
func (s *Server) paced(w http.ResponseWriter, r *http.Request) *pacedBody {
	conn, ok := r.Context().Value(peerKey{}).(*peerConn)
	if !ok || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &pacedBody{ReadCloser: r.Body, conn: conn, chunked: len(r.TransferEncoding) > 0,
		pace: nng.NewPace(s.patience.body, http.NewResponseController(w).SetReadDeadline)}
}

// Read waits for the peer, and the connection is one that may make room while it does.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.conn.await()
	n, err := b.pace.Read(b.ReadCloser, p)
	b.conn.serve()
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
		if late := b.pace.End(); late != nil {
			return n, late
		}
	case errors.Is(err, nng.ErrTooSlow):
		err = diag.Errorf(TooSlow, "send the request in one go", "the body of the request does not come: %w", err)
	}
	return n, err
}

// before is called before an answer begins. A connection on which something of the request is left, or might be, is not
// used again: nobody waits for what was not wanted.
func (b *pacedBody) before(header http.Header, status int) {
	if b == nil || b.ended && !b.chunked {
		return
	}
	if !b.ended && status < http.StatusBadRequest {
		_, _ = io.CopyN(io.Discard, b, drained) // seen by ended
	}
	if !b.ended || b.chunked {
		header.Set("Connection", "close")
	}
}

// after is called when the handler has ended.
func (b *pacedBody) after(w http.ResponseWriter) {
	if b != nil && !b.ended {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(linger)) // a closed one needs none
	}
}
