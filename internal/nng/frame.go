// Package nng speaks NNG's REQ/REP protocol over a stream socket: the SP handshake, the frames of the IPC transport and
// the request ids. It knows nothing of what the messages say, and nothing of other SP protocols.
//
// Serve is the answering side (REP) of one connection, Client the asking side (REQ). The format is documented in
// docs/formats/wire-v1.md. Bytes from the other side are never trusted: a frame costs no more memory than has arrived
// of it, times a small factor, and never more than Options.MaxMessage.
package nng

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Protocol numbers of the SP handshake (nanomsg RFC sp-protocol-ids).
const (
	protoReq = 0x0030
	protoRep = 0x0031
)

const (
	// helloSize is the size of the SP handshake: 00 'S' 'P' 00, protocol (big-endian), 00 00.
	helloSize = 8
	// frameMessage is the type byte of an IPC frame that carries a message; there is no other type in use.
	frameMessage = 0x01
	// frameHeader is the type byte and the length, big-endian, that a frame begins with.
	frameHeader = 9
	// finalHop marks the last word of a backtrace, which is the request id. Words before it are added by devices.
	finalHop = 1 << 31
	// maxHops is the largest number of devices between two peers: NNG's own upper limit (NNI_MAX_MAX_TTL).
	maxHops = 15
	// firstChunk is how much of a message is allocated before any of it has arrived: most messages at once, and little
	// enough to lose on a length that lies.
	firstChunk = 1 << 20
	// growth is the factor by which the buffer of a longer message grows. 4 copies a third of a large message; 2 would
	// copy all of it.
	growth = 4
)

// magic is how every SP handshake begins. No HTTP request begins with it.
var magic = []byte{0, 'S', 'P', 0}

// PrefixSize is how many bytes IsHandshake needs.
const PrefixSize = 4

// IsHandshake reports whether a connection that begins with prefix speaks SP. One shorter than PrefixSize never does.
func IsHandshake(prefix []byte) bool { return bytes.HasPrefix(prefix, magic) }

// Errors of a peer that does not keep to the protocol, and of one that asks for too much.
var (
	// ErrProtocol: what arrived is not NNG REQ/REP over IPC.
	ErrProtocol = errors.New("not NNG REQ/REP")
	// ErrTooLarge: a message is longer than Options.MaxMessage.
	ErrTooLarge = errors.New("message too large")
)

// hello is one side's half of the handshake.
func hello(proto uint16) []byte { return append(bytes.Clone(magic), byte(proto>>8), byte(proto), 0, 0) }

// readHello reads the peer's half and checks that it is proto's.
func readHello(r io.Reader, proto uint16) error {
	got := make([]byte, helloSize)
	if _, err := io.ReadFull(r, got); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if want := hello(proto); !bytes.Equal(got, want) {
		return fmt.Errorf("handshake: got % x, want % x: %w", got, want, ErrProtocol)
	}
	return nil
}

// readFrame reads one message. io.EOF means that the stream ended between two messages.
func readFrame(r io.Reader, limit int64) ([]byte, error) {
	n, err := readHead(r, limit)
	if err != nil {
		return nil, err
	}
	return readBody(r, n)
}

// readHead reads what stands before a message and returns its length.
func readHead(r io.Reader, limit int64) (int, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	if head[0] != frameMessage {
		return 0, fmt.Errorf("frame of type %#02x, want %#02x: %w", head[0], frameMessage, ErrProtocol)
	}
	n := binary.BigEndian.Uint64(head[1:])
	if n > uint64(limit) {
		return 0, fmt.Errorf("frame of %d bytes, at most %d are allowed: %w", n, limit, ErrTooLarge)
	}
	return int(n), nil
}

// readBody reads n bytes into a buffer that grows with what has arrived.
func readBody(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, min(n, firstChunk))
	for got := 0; ; {
		if _, err := io.ReadFull(r, buf[got:]); err != nil {
			return nil, fmt.Errorf("frame of %d bytes: %w", n, noEOF(err))
		}
		if got = len(buf); got == n {
			return buf, nil
		}
		grown := make([]byte, min(n, growth*got))
		copy(grown, buf)
		buf = grown
	}
}

// noEOF turns the end of a stream within a message into an error that nobody takes for an orderly end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFrame sends one message: a header (backtrace and id) and a body.
func writeFrame(w io.Writer, header, body []byte) error {
	head := make([]byte, frameHeader, frameHeader+len(header))
	head[0] = frameMessage
	binary.BigEndian.PutUint64(head[1:], uint64(len(header)+len(body)))
	bufs := net.Buffers{append(head, header...)}
	if len(body) > 0 {
		bufs = append(bufs, body)
	}
	_, err := bufs.WriteTo(w)
	return err
}

// split divides a message into its header, which is the backtrace up to and including the request id, and its body. The
// header is nil for a message that came through more than maxHops devices: NNG drops those.
func split(msg []byte) (header, body []byte, err error) {
	for n := 4; n <= len(msg); n += 4 {
		if n > 4*(maxHops+1) {
			return nil, nil, nil
		}
		if binary.BigEndian.Uint32(msg[n-4:])&finalHop != 0 {
			return msg[:n:n], msg[n:], nil
		}
	}
	return nil, nil, fmt.Errorf("message of %d bytes has no request id: %w", len(msg), ErrProtocol)
}
