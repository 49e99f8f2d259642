package ptxvm

import "math/bits"

// This file implements what is kept about accesses to a word of memory: three marks of 64 bits.

// mark is an access to a word. The zero mark is none.
type mark uint64

// The parts of a mark, by their lowest bit. Stamps lie highest, so that later marks are greater.
const (
	strongAt = 0  // 1 bit: a strong access (PTX ISA, "Memory Consistency Model"): atomic, volatile, relaxed …
	shapeAt  = 1  // 2 bits
	instrAt  = 3  // 17 bits
	bytesAt  = 20 // 4 bits: bytes of the word
	laneAt   = 24 // 5 bits
	warpAt   = 29 // 5 bits
	stampAt  = 34 // 30 bits

	strongMark mark = 1 << strongAt
	shapeMask  mark = 3 << shapeAt
	bytesMask  mark = 15 << bytesAt
	turnMask   mark = (1<<64 - 1) >> warpAt << warpAt // stamp and warp
	firstMask  mark = 31<<laneAt | maxMarks<<instrAt  // lane and instruction

	// who is what lanes that read the same bytes together differ in.
	who = firstMask | shapeMask

	maxStamp = 1<<30 - 1
	maxMarks = 1<<17 - 1 // instructions that have marks; 0 stands for the others
)

// Shapes: which lanes of the warp a mark stands for.
const (
	oneLane   mark = iota << shapeAt
	sideLanes      // lanes side by side, each with its part of the word, the lowest lane first
	someLanes      // this lane and others, all with the same bytes
	ofCopy         // an asynchronous copy that this lane has waited for (shadow_copy.go)
)

func (m mark) stamp() uint32 { return uint32(m >> stampAt) }
func (m mark) warp() int     { return int(m>>warpAt) & 31 }
func (m mark) lane() int     { return int(m>>laneAt) & 31 }
func (m mark) bytes() uint8  { return uint8(m>>bytesAt) & 15 }
func (m mark) shape() mark   { return m & shapeMask }
func (m mark) strong() bool  { return m&strongMark != 0 }
func (m mark) instr() int    { return int(m>>instrAt) & maxMarks }

// newMark is an access without its lane and its bytes.
func newMark(stamp uint32, warp int, in *ins) mark {
	return mark(stamp)<<stampAt | mark(warp)<<warpAt | mark(in.facts.mark)<<instrAt
}

// by is the mark of one lane.
func (m mark) by(lane int, bytes uint8) mark { return m | mark(lane)<<laneAt | mark(bytes)<<bytesAt }

// has reports whether a mark stands for lanes of the same warp at the same stamp that access the same bytes.
func (m mark) has(x mark) bool { return m&^who == x&^who && m.shape() == someLanes }

// with joins the marks of two accesses of a warp at one stamp, if one mark can say both. unit is how many bytes each
// lane accesses, where that is less than a word.
func (m mark) with(x mark, unit int) (mark, bool) {
	switch {
	case (m^x)&turnMask != 0 || (m^x)&strongMark != 0:
		return m, false
	case m.shape() == oneLane && m.lane() == x.lane(), m.shape() == someLanes && m&bytesMask == x&bytesMask:
		return m | x&bytesMask, true
	case m.shape() == oneLane && m&bytesMask == x&bytesMask:
		return m | someLanes, true
	case unit == 0 || unit >= 4 || m.shape() == someLanes || m.instr() != x.instr():
		return m, false
	}
	far := bits.TrailingZeros8(x.bytes()) - bits.TrailingZeros8(m.bytes())
	if far%unit != 0 || m.lane()+far/unit != x.lane() {
		if far >= 0 || far%unit != 0 || m.lane()+far/unit != x.lane() || m.shape() != oneLane {
			return m, false
		}
	}
	if far < 0 { // the lower lane comes first
		m = m&^firstMask | x&firstMask
	}
	return m | x&bytesMask | sideLanes, true
}

// written is the mark of a word after a write, whose lanes write the bytes of a word together where they are smaller.
func (m mark) written(x mark, size int) mark {
	if size < 4 && m != 0 && m.instr() == x.instr() {
		if merged, ok := m.with(x, size); ok {
			return merged
		}
	}
	return x
}

// otherLane is a lane that a mark of the same warp stands for, other than one that accesses some of the bytes; false
// where there is none.
func (m mark) otherLane(lane int, bytes uint8, unit int) (int, bool) {
	switch m.shape() {
	case sideLanes:
		if unit == 0 {
			return 0, false
		}
		first := bits.TrailingZeros8(m.bytes())
		for both := m.bytes() & bytes; both != 0; both &= both - 1 {
			if other := m.lane() + (bits.TrailingZeros8(both)-first)/unit; other != lane {
				return other, true
			}
		}
		return 0, false
	case someLanes:
		if m.lane() == lane {
			return (lane + 1) & 31, true
		}
	}
	return m.lane(), m.lane() != lane
}

// page is the states of pageWords words side by side. Of each word there are: its last writer; and reader and other,
// reads since the last write that no synchronization orders after one another, or are ordered after all before: two of
// different warps or blocks are enough where they meet as a whole, since whoever writes is unordered with at least one
// of them; where they do not there are more (overflow). Strong accesses that write stand there, too, where writer is a
// weak one that not everybody has behind it.
//
// Columns come into being with their first mark. Most memory needs one or two: outputs have writers, inputs readers.
type page struct {
	writer, reader, other *markColumn
	overflows             *[pageWords]*overflow // see overflow; nil for none
}

// markColumn is the marks of one kind of the words of a page.
type markColumn [pageWords]mark

// noMarks stands for a column in which no word has a mark. Nobody writes to it.
var noMarks markColumn

// pageWords is how many words share a page of states.
const pageWords = 1024

// columnBytes is the size of a column.
const columnBytes = 8 * pageWords

// columns are how many a page has at most.
const columns = 3

// cell is a word of memory.
type cell struct {
	page *page
	at   uint32 // in its page
}

func (c cell) writer() mark { return c.page.writer[c.at%pageWords] }
func (c cell) reader() mark { return c.page.reader[c.at%pageWords] }
func (c cell) other() mark  { return c.page.other[c.at%pageWords] }

// all are the bits that any of the marks has.
func (c cell) all() mark { return c.writer() | c.reader() | c.other() }

// next is a word further on in the same page.
func (c cell) next(words int) cell { return cell{c.page, c.at + uint32(words)} }

// former is an access as marks say it, with the block that made it.
type former struct {
	mark
	block uint32 // number + 1; 0 for no access
	lanes uint32 // that the mark stands for; 0 where only the mark says it
}

// in is the instruction of a mark; nil where it is not known.
func (p *Program) marked(m mark) *ins {
	if m.instr() == 0 {
		return nil
	}
	return &p.code[p.marks[m.instr()]]
}

// unit is how many bytes of a word each lane of a mark accessed.
func (p *Program) unit(m mark) int {
	if in := p.marked(m); in != nil {
		return in.size()
	}
	return 0
}

// writes reports whether a strong access writes.
func (p *Program) writes(m mark) bool {
	in := p.marked(m)
	return in != nil && in.facts.rule != loads && !in.facts.order.waits
}

// observes reports whether a strong access gives its thread the value that it reads. A red does not: in which order
// several of them came depends on the execution.
func (p *Program) observes(m mark) bool {
	in := p.marked(m)
	return m.strong() && in != nil && (in.facts.rule == loads || in.facts.rule == updates && in.src.Op != "red")
}

// stores reports whether a strong access is a store, and not an atomic operation.
func (p *Program) stores(m mark) bool {
	in := p.marked(m)
	return m.strong() && in != nil && in.facts.rule == stores
}

// signals reports whether an access is a strong load or store: words that have them are few, and who has observed what
// decides.
func (p *Program) signals(m mark) bool { return p.stores(m) || m.strong() && !p.writes(m) }

// narrow reports whether a strong access is one for the threads of its block only.
func (p *Program) narrow(m mark) bool {
	in := p.marked(m)
	return in == nil || in.facts.order.narrow
}
