package cubin

// This file implements the records of .nv.info and .nv.compat: a byte for the format, a byte for the attribute, and 16
// bits that are the value or, in the last format, the size of what follows. The numbers are those that cuobjdump -elf
// prints by name (EIFMT_…, EIATTR_…).

import (
	"cmp"
	"encoding/binary"
	"slices"
)

const (
	formatNone  = 1 // no value
	formatByte  = 2
	formatHalf  = 3
	formatSized = 4

	attrMaxThreads   = 0x05
	attrReqThreads   = 0x10
	attrFrameSize    = 0x11
	attrMinStackSize = 0x12
	attrParam        = 0x17
	attrParamBytes   = 0x19
	attrRegCount     = 0x2f
	attrToolkit      = 0x37
	attrCluster      = 0x3d
	attrParamWide    = 0x45 // since CUDA 12.1, for kernels with large parameters
	attrBarriers     = 0x4c
	attrAnnotations  = 0x55

	stackUnlimited = 0xffffffff // as a stack size: recursion, whose depth the compiler does not know

	compatAccelerator = 0x09 // 1: the code is for sm_NNa alone
)

// record is one record; body is nil but for formatSized.
type record struct {
	attr  byte
	value uint16
	body  []byte
}

// records calls visit for each record of a section.
func (r *imageReader) records(s *section, visit func(record)) error {
	all, err := r.content(s)
	if err != nil {
		return err
	}
	start := int(s.offset)
	for at := 0; at < len(all); {
		b := all[at:]
		if len(b) < 4 {
			return r.malformed(BadRecord, start+at, "the last record of %.80q is cut off", s.name)
		}
		rec, size := record{attr: b[1], value: binary.LittleEndian.Uint16(b[2:])}, 4
		switch b[0] {
		case formatNone, formatByte, formatHalf:
		case formatSized:
			size += int(rec.value)
			if size > len(b) {
				return r.malformed(BadRecord, start+at, "a record of %.80q has %d bytes and %d are left", s.name, size, len(b))
			}
			rec.body = b[4:size]
		default:
			return r.malformed(BadRecord, start+at, "a record of %.80q has the unknown format %d", s.name, b[0])
		}
		visit(rec)
		at += size
	}
	return nil
}

// readInfo reads the records of one kernel, or those of the whole image when w is nil. Attributes that are not asked
// for are passed over: every toolkit adds some.
func (r *imageReader) readInfo(s *section, w *working) error {
	return r.records(s, func(rec record) {
		switch rec.attr {
		case attrRegCount, attrFrameSize, attrMinStackSize:
			r.noteFunction(rec)
		default:
			if w != nil {
				w.note(rec)
			}
		}
	})
}

// noteFunction reads a record that names a function by its symbol. Such records stand in either section.
func (r *imageReader) noteFunction(rec record) {
	if len(rec.body) < 8 {
		return
	}
	k, ok := r.bySymbol[binary.LittleEndian.Uint32(rec.body)]
	if !ok {
		return // a function that is no kernel
	}
	n := int(binary.LittleEndian.Uint32(rec.body[4:]))
	w := &r.working[k]
	switch rec.attr {
	case attrRegCount:
		w.Registers = &n
	case attrFrameSize:
		w.StackFrame = &n
	case attrMinStackSize:
		w.MinStack = nil
		if n != stackUnlimited {
			w.MinStack = &n
		}
	}
}

// note reads a record of one kernel.
func (w *working) note(rec record) {
	le := binary.LittleEndian
	switch rec.attr {
	case attrMaxThreads:
		w.MaxThreads = threeOf(rec.body)
	case attrReqThreads:
		w.ReqThreads = threeOf(rec.body)
	case attrCluster:
		w.Cluster = threeOf(rec.body)
	case attrParamBytes:
		w.ParamBytes = int(rec.value)
	case attrBarriers:
		w.Barriers = int(rec.value & 0xff)
	case attrToolkit:
		if len(rec.body) >= 4 {
			w.toolkit = int(le.Uint32(rec.body))
		}
	case attrParam:
		if len(rec.body) >= 12 {
			// The last word holds alignment, space and bank of the parameter, and its size in the upper 14 bits.
			w.addParam(rec.body, int(le.Uint32(rec.body[8:])>>18))
		}
	case attrParamWide:
		if len(rec.body) >= 12 {
			w.addParam(rec.body, int(le.Uint16(rec.body[8:])))
		}
	case attrAnnotations:
		w.spills.note(rec.body)
	}
}

// threeOf reads x, y and z; what is missing is 0.
func threeOf(body []byte) (xyz [3]int) {
	for i := range xyz {
		if len(body) >= 4*i+4 {
			xyz[i] = int(binary.LittleEndian.Uint32(body[4*i:]))
		}
	}
	return xyz
}

// orderedParam is a parameter with its place in the list.
type orderedParam struct {
	Param
	ordinal int
}

func (w *working) addParam(body []byte, size int) {
	le := binary.LittleEndian
	p := Param{Offset: int(le.Uint16(body[6:])), Size: size}
	w.params = append(w.params, orderedParam{p, int(le.Uint16(body[4:]))})
}

// inOrder sorts parameters as in the source: files have the last one first.
func inOrder(params []orderedParam) []Param {
	slices.SortStableFunc(params, func(x, y orderedParam) int { return cmp.Compare(x.ordinal, y.ordinal) })
	var list []Param
	for _, p := range params {
		list = append(list, p.Param)
	}
	return list
}

// readCompat reads what the second layout says about the architecture since CUDA 13.
func (r *imageReader) readCompat(s *section) error {
	return r.records(s, func(rec record) {
		if rec.attr == compatAccelerator && rec.value&0xff == 1 {
			r.accel = true
		}
	})
}
