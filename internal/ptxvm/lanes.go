package ptxvm

// This file implements registers: 32 lanes side by side, one slot per register.

// lanes32 and lanes64 are one register of all threads of a warp. Registers of 8 and 16 bits have the low bits of a
// lanes32; what stands above them is zero.
type (
	lanes32 = [32]uint32
	lanes64 = [32]uint64
)

const (
	warpSize = 32
	allLanes = ^uint32(0)
)

// ref names a slot: a register, a constant or a special register of a warp. The two highest bits are its class.
type ref uint32

const (
	class32   ref = 0 << 30
	class64   ref = 1 << 30
	classPred ref = 2 << 30
	classMask ref = 3 << 30
	noRef     ref = ^ref(0)
)

func (r ref) class() ref { return r & classMask }
func (r ref) index() int { return int(r &^ classMask) }
func (r ref) wide() bool { return r&classMask == class64 }

// file is the register file of a warp.
type file struct {
	r32 []lanes32
	r64 []lanes64
	p   []uint32 // predicates, one bit a lane
}

// get is the value of a slot in one lane.
func (f *file) get(r ref, lane int) uint64 {
	switch r.class() {
	case class32:
		return uint64(f.r32[r.index()][lane&31])
	case class64:
		return f.r64[r.index()][lane&31]
	}
	return uint64(f.p[r.index()] >> (lane & 31) & 1)
}

// set writes a value to one lane of a slot.
func (f *file) set(r ref, lane int, v uint64) {
	switch r.class() {
	case class32:
		f.r32[r.index()][lane&31] = uint32(v)
	case class64:
		f.r64[r.index()][lane&31] = v
	default:
		bit := uint32(1) << (lane & 31)
		f.p[r.index()] &^= bit
		if v != 0 {
			f.p[r.index()] |= bit
		}
	}
}

// broadcast writes a value to all lanes of a slot.
func (f *file) broadcast(r ref, v uint64) {
	switch r.class() {
	case class32:
		d := &f.r32[r.index()]
		for lane := range d {
			d[lane] = uint32(v)
		}
	case class64:
		fill64(&f.r64[r.index()], v)
	default:
		f.p[r.index()] = 0
		if v != 0 {
			f.p[r.index()] = allLanes
		}
	}
}

func fill64(d *lanes64, v uint64) {
	for lane := range d {
		d[lane] = v
	}
}
