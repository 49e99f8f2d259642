// This file implements how many peers may be connected, and which connection makes room for another.

package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gpuemu/internal/diag"
)

const (
	// maxConnections is how many connections the socket has at once: a test run with a client per core has dozens, a
	// crowd of clients hundreds.
	maxConnections = 512
	// maxOfProcess is how many of them one process may have. The rest is there for others, such as the command that asks
	// what is going on.
	maxOfProcess = 448
	// maxRemote and maxOfAddress are the same for the listener on TCP. It has places of its own: whoever comes from
	// another machine takes none of the socket's.
	maxRemote    = 128
	maxOfAddress = 32
	// writeTimeout is how long a peer may leave what it is sent unread: long enough for a command that was suspended.
	// Where places are short it is less.
	writeTimeout = 10 * time.Minute
)

// peers are the connections of one listener. Where it is full, a connection makes room on which the daemon waits for
// the peer: for the rest of a request, for the next one, or for an answer to be read. Of those it is the one on which
// nothing has moved for the longest. So thousands of requests that are never finished push out each other, and whoever
// sends a whole request is served. A connection whose request is being executed keeps its place; where all are, a new
// one is refused.
type peers struct {
	most, mostOfOne int
	moves           atomic.Int64 // a clock that goes on when something moves on any of the connections

	mu   sync.Mutex
	open map[*peerConn]struct{} // guarded by mu
	of   map[string]int         // guarded by mu: connections by peer
}

func newPeers(most, mostOfOne int) *peers {
	return &peers{most: most, mostOfOne: mostOfOne, open: map[*peerConn]struct{}{}, of: map[string]int{}}
}

// admit gives a connection of a peer its place, or returns nil where there is none.
func (p *peers) admit(conn net.Conn, peer string) *peerConn {
	c := &peerConn{Conn: conn, peers: p, peer: peer}
	c.touch()
	p.mu.Lock()
	var out *peerConn
	full := true
	switch {
	case p.of[peer] >= p.mostOfOne:
		out = p.stalest(peer)
	case len(p.open) >= p.most:
		if out = p.stalest(p.largest()); out == nil {
			out = p.stalest("")
		}
	default:
		full = false
	}
	if out != nil {
		p.forget(out)
	}
	admitted := !full || out != nil
	if admitted {
		p.open[c] = struct{}{}
		p.of[peer]++
	}
	p.mu.Unlock()
	if out != nil {
		_ = out.Conn.Close() // whoever waits on it sees that
	}
	if !admitted {
		return nil
	}
	return c
}

// stalest returns the connection of a peer, or of any where peer is "", that makes room first; nil if there is none.
// The caller holds the lock.
func (p *peers) stalest(peer string) (out *peerConn) {
	for c := range p.open {
		if (peer == "" || c.peer == peer) && c.waits() && (out == nil || c.moved.Load() < out.moved.Load()) {
			out = c
		}
	}
	return out
}

// largest returns the peer with the most connections. The caller holds the lock.
func (p *peers) largest() (peer string) {
	for name, n := range p.of {
		if n > p.of[peer] || n == p.of[peer] && name < peer {
			peer = name
		}
	}
	return peer
}

// forget takes a connection's place away. The caller holds the lock.
func (p *peers) forget(c *peerConn) {
	if _, ok := p.open[c]; !ok {
		return
	}
	delete(p.open, c)
	if p.of[c.peer]--; p.of[c.peer] == 0 {
		delete(p.of, c.peer)
	}
}

// peerConn is a connection with a place.
type peerConn struct {
	net.Conn
	first []byte // read already, to be read again
	peers *peers
	peer  string

	moved   atomic.Int64 // peers.moves when something moved last
	served  atomic.Int32 // requests that are being executed
	writing atomic.Int32 // writes that are under way
}

func (c *peerConn) touch() { c.moved.Store(c.peers.moves.Add(1)) }

// waits reports whether the daemon waits for the peer, not the peer for the daemon.
func (c *peerConn) waits() bool { return c.served.Load() <= 0 || c.writing.Load() > 0 }

// serve says that a whole request has come, or that one more byte of it is not waited for any longer; await is its
// opposite. Both do nothing where there is no connection.
func (c *peerConn) serve() {
	if c != nil {
		c.served.Add(1)
	}
}

func (c *peerConn) await() {
	if c != nil {
		c.touch()
		c.served.Add(-1)
	}
}

func (c *peerConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.touch()
	}
	return n, err
}

func (c *peerConn) Write(b []byte) (int, error) {
	c.touch()
	c.writing.Add(1)
	defer c.writing.Add(-1)
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.touch()
	return n, err
}

// CloseWrite ends what is sent, where the connection can: net/http does so before it closes one with unread data.
func (c *peerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection and gives its place to another.
func (c *peerConn) Close() error {
	err := c.Conn.Close()
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	c.peers.forget(c)
	return err
}

// peerKey is the key of the peerConn in the contexts of its requests.
type peerKey struct{}

// tooMany is the answer to a connection without a place.
func tooMany(limit int) error {
	return diag.Errorf(Busy, "close some, or try again when others are done",
		"%d connections are open, and requests are executed on all of them", limit)
}

// refuse answers a connection without a place, and closes it. Nothing is read: the answer fits into what the system
// keeps for the peer.
func refuse(conn net.Conn, why error) {
	defer conn.Close()
	e := toWire(why)
	text, err := json.Marshal(e)
	if err != nil || conn.SetWriteDeadline(time.Now().Add(time.Second)) != nil {
		return
	}
	code := status(e.Code)
	// A peer that is gone, or has no room for two lines, needs no answer.
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: 1\r\n"+
		"Connection: close\r\n\r\n%s\n", code, http.StatusText(code), jsonType, len(text)+1, text)
}

// remotePeers is a listener on TCP that gives its connections places.
type remotePeers struct {
	net.Listener
	*peers
}

func (r remotePeers) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := r.admit(conn, addressOf(conn.RemoteAddr())); c != nil {
			return c, nil
		}
		conn.Close() // without TLS nothing can be said
	}
}

// addressOf names the machine at the other end: its address, and of IPv6 the network, of which a machine has all
// addresses.
func addressOf(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String()
	}
	ip := at.Addr().Unmap()
	if network, err := ip.Prefix(64); ip.Is6() && err == nil {
		return network.String()
	}
	return ip.String()
}
