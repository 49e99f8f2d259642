package cubin

// This file implements the sizes of spills: the assembler marks the instructions that save and restore registers for
// want of more of them, and the instructions say how many bytes they move.

import "encoding/binary"

const (
	annotationSpill = 1   // a pair of words: this number, then the offset of the instruction
	toolkitSpills   = 126 // the first toolkit that marks spills: CUDA 12.6
	firstWideArch   = 70  // Volta and later have instructions of 16 bytes

	opcodeMask  = 0xfff // the opcode is the lowest 12 bits of an instruction
	opcodeLDL   = 0x983
	opcodeSTL   = 0x387
	instrBytes  = 16
	widthShift  = 9 // of the second 64-bit word: 3 bits for the width of a memory access
	widthSigned = 3 // widths up to here come in pairs, unsigned and signed
)

// spills are the marked instructions of a kernel.
type spills struct {
	offsets []uint32
	strange bool // there was an annotation whose meaning is not known
}

// note adds the marks of one record.
func (s *spills) note(body []byte) {
	le := binary.LittleEndian
	for ; len(body) >= 8; body = body[8:] {
		if le.Uint32(body) != annotationSpill {
			s.strange = true // its length is not known either
			return
		}
		s.offsets = append(s.offsets, le.Uint32(body[4:]))
	}
	s.strange = s.strange || len(body) > 0
}

// finishSpills sets the spills of a kernel if they can be known.
func (r *imageReader) finishSpills(w *working) error {
	if w.StackFrame != nil && *w.StackFrame == 0 && len(w.spills.offsets) == 0 && !w.spills.strange {
		w.SpillStores, w.SpillLoads = new(int), new(int) // there is no place to spill to
		return nil
	}
	if w.toolkit < toolkitSpills || r.arch < firstWideArch || w.spills.strange {
		return nil
	}
	if len(w.spills.offsets) == 0 {
		w.SpillStores, w.SpillLoads = new(int), new(int)
		return nil
	}
	code, err := r.content(w.text)
	if err != nil {
		return err
	}
	var stores, loads int
	for _, offset := range w.spills.offsets {
		if uint64(offset)+instrBytes > uint64(len(code)) {
			return r.malformed(BadRecord, int(w.text.offset), "kernel %.80q has a spill at %#x of %d bytes of code",
				w.Name, offset, len(code))
		}
		n, isStore, ok := localAccess(code[offset:])
		switch {
		case !ok:
			return nil // spilled to elsewhere, in a way that is not known here
		case isStore:
			stores += n
		default:
			loads += n
		}
	}
	w.SpillStores, w.SpillLoads = &stores, &loads
	return nil
}

// localAccess decodes the width in bytes of an instruction that reads or writes local memory; ok is false for others.
func localAccess(instr []byte) (width int, isStore, ok bool) {
	le := binary.LittleEndian
	switch le.Uint64(instr) & opcodeMask {
	case opcodeLDL:
	case opcodeSTL:
		isStore = true
	default:
		return 0, false, false
	}
	code := le.Uint64(instr[8:]) >> widthShift & 7
	switch {
	case code <= widthSigned:
		return 1 << (code / 2), isStore, true // 8 and 16 bits
	case code < 7:
		return 4 << (code - 4), isStore, true // 32, 64 and 128 bits
	}
	return 0, false, false
}
