package nng

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"
)

// Client is the asking side (REQ) of one connection. It sends each request once: a stream socket loses nothing, and
// where it breaks the caller must know. It is safe for concurrent use; requests wait for each other.
type Client struct {
	conn  net.Conn
	limit int64

	mu     sync.Mutex
	id     uint32 // of the last request; guarded by mu
	broken error  // why no further request is possible; guarded by mu
}

// NewClient makes the handshake on conn and owns conn from then on, also when it fails. Of opt it uses MaxMessage and
// HandshakeTimeout.
func NewClient(conn net.Conn, opt Options) (*Client, error) {
	opt = opt.withDefaults()
	err := conn.SetDeadline(time.Now().Add(opt.HandshakeTimeout))
	if err == nil {
		_, err = conn.Write(hello(protoReq))
	}
	if err == nil {
		err = readHello(conn, protoRep)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{conn: conn, limit: opt.MaxMessage}, nil
}

// Do sends a request and returns its reply. When ctx ends first, the connection is closed: the stream may stand within
// a message.
func (c *Client) Do(ctx context.Context, body []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return nil, c.broken
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	reply, err := c.exchange(body)
	if !stop() && err != nil {
		err = fmt.Errorf("request: %w", context.Cause(ctx))
	}
	if err != nil {
		c.broken = err
		c.conn.Close()
		return nil, err
	}
	return reply, nil
}

func (c *Client) exchange(body []byte) ([]byte, error) {
	c.id = (c.id + 1) | finalHop
	if err := writeFrame(c.conn, binary.BigEndian.AppendUint32(nil, c.id), body); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	for {
		msg, err := readFrame(c.conn, c.limit)
		if err != nil {
			return nil, fmt.Errorf("reply: %w", noEOF(err))
		}
		header, reply, err := split(msg)
		if err != nil {
			return nil, fmt.Errorf("reply: %w", err)
		}
		if len(header) == 4 && binary.BigEndian.Uint32(header) == c.id {
			return reply, nil // others answer requests of before, sent twice
		}
	}
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }
