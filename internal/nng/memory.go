package nng

import "hash/maphash"

// key names a request on its connection: the backtrace with the id, and what was asked. A request that is sent again is
// the same to the byte; an id that comes back with another body is another request.
type key struct {
	header string
	body   uint64
	length int
}

// memory knows the requests of a connection that run, and the last ones that were answered. It is not safe for
// concurrent use.
type memory struct {
	maxCount, maxBytes int
	seed               maphash.Seed // of the hash of bodies: nobody can aim at a collision

	replies  map[key][]byte // nil: running, or answered with a reply too large to keep
	answered []key          // oldest first
	bytes    int            // of the kept replies
}

func newMemory(maxCount, maxBytes int) *memory {
	return &memory{maxCount: maxCount, maxBytes: maxBytes, seed: maphash.MakeSeed(), replies: map[key][]byte{}}
}

// key only reads what is constant.
func (m *memory) key(header, body []byte) key {
	return key{string(header), maphash.Bytes(m.seed, body), len(body)}
}

// begin notes a request. fresh is false for one that runs or was answered; reply is then what to send again, nil for
// nothing.
func (m *memory) begin(k key) (reply []byte, fresh bool) {
	reply, known := m.replies[k]
	if !known {
		m.replies[k] = nil
	}
	return reply, !known
}

// end notes the reply of a request that began, and forgets the oldest answered ones that the limits leave no room for.
func (m *memory) end(k key, reply []byte) {
	m.answered = append(m.answered, k)
	if len(reply) <= m.maxBytes {
		if reply == nil {
			reply = []byte{}
		}
		m.replies[k] = reply
		m.bytes += len(reply)
	}
	for len(m.answered) > m.maxCount || m.bytes > m.maxBytes {
		oldest := m.answered[0]
		m.answered = m.answered[1:]
		m.bytes -= len(m.replies[oldest])
		delete(m.replies, oldest)
	}
}
