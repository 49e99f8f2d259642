package ptxvm

import (
	"encoding/binary"

	"gpuemu/internal/ptx"
)

// This file implements loads, stores and moves of 8x8 matrices of 16-bit elements that the lanes of a warp hold
// together (PTX ISA 9.7.14.5): lane t has the elements 2(t%4) and 2(t%4)+1 of row t/4.

var matrixRows = []row{
	{syntax: "ldmatrix .sync .aligned .m8n8 .x1|.x2|.x4 [.trans] [.shared|.shared::cta] .b16", build: matrixLoad},
	{syntax: "stmatrix .sync .aligned .m8n8 .x1|.x2|.x4 [.trans] [.shared|.shared::cta] .b16", build: matrixStore},
	{syntax: "movmatrix .sync .aligned .m8n8 .trans .b16", build: matrixMove},
}

// rowBytes are the bytes of a row, maxMatrices the most of an instruction: .x4.
const (
	rowBytes    = 16
	maxMatrices = 4
)

// tile is a matrix, row by row.
type tile [8][8]uint16

// spread gives a lane its two elements.
func (m *tile) spread(lane int) uint64 {
	row, col := lane/4, lane%4*2
	return uint64(m[row][col]) | uint64(m[row][col+1])<<16
}

// gather takes the two elements of a lane.
func (m *tile) gather(lane int, v uint64) {
	row, col := lane/4, lane%4*2
	m[row][col], m[row][col+1] = uint16(v), uint16(v>>16)
}

func (m *tile) transposed() *tile {
	var t tile
	for r := range m {
		for c := range m[r] {
			t[c][r] = m[r][c]
		}
	}
	return &t
}

// matrixOperands reads the registers, one a matrix. All lanes of the warp take part.
func (b *builder) matrixOperands(o, address *ptx.Operand) {
	list := o.List
	if o.Kind != ptx.VectorArg {
		list = []ptx.Operand{*o}
	}
	want := 1
	for _, m := range b.in.Mods {
		switch m {
		case "x2", "x4":
			want = int(m[1] - '0')
		}
	}
	if len(list) != want {
		b.fail(o.Pos, "", "%s needs %d registers", b.in.Mnemonic(), want)
		return
	}
	for i := range list {
		b.out.list = append(b.out.list, b.srcOf(&list[i], "b32"))
	}
	b.out.kind, b.out.c = together, b.constant(class32, uint64(allLanes))
	b.out.mem = b.memory(address)
}

// rowOf is the 16 bytes of a row; its address comes from lane 8*matrix + row.
func (w *warp) rowOf(in *ins, matrix, row int, write bool) []byte {
	lane := 8*matrix + row
	return w.reach(in, in.mem, lane, in.mem.at(w, lane), rowBytes, write)
}

func matrixLoad(b *builder) {
	b.matrixOperands(b.arg(0), b.arg(1))
	b.out.flow = flowLoad
	trans := b.in.Has("trans")
	b.out.run = func(w *warp, in *ins) {
		var tiles [maxMatrices]lanes32 // all are loaded before a register changes: one may be the address
		sweep := w.matrixSweep(in)
		for i := range in.list {
			var rows [8][]byte
			for r := range rows {
				if sweep != nil {
					rows[r] = sweep.data[w.at[8*i+r]:][:rowBytes]
				} else {
					rows[r] = w.rowOf(in, i, r, false)
				}
			}
			if trans {
				loadTransposed(&tiles[i], &rows)
			} else {
				loadRows(&tiles[i], &rows)
			}
		}
		for i, d := range in.list {
			*w.to32(d) = tiles[i]
			w.keep32(d)
		}
	}
}

// matrixSweep looks up the rows of all matrices at once; nil where somebody looks at single rows, or something is wrong
// with one of them. Eight lanes a matrix give addresses.
func (w *warp) matrixSweep(in *ins) *sweep {
	if w.watch != nil || w.mask != allLanes {
		return nil
	}
	w.mask = allLanes >> (warpSize - 8*len(in.list))
	s := w.sweep(in.mem, rowBytes, false)
	if s != nil && w.shadow != nil && !w.shadow.quickRows(w, in, s) {
		s = nil
	}
	w.mask = allLanes
	return s
}

// loadRows gives each lane its two elements: those of a row are side by side, and so are the lanes that get them.
func loadRows(d *lanes32, rows *[8][]byte) {
	for r := range rows {
		to, row := (*[4]uint32)(d[4*r:]), (*[rowBytes]byte)(rows[r])
		to[0], to[1] = binary.LittleEndian.Uint32(row[:]), binary.LittleEndian.Uint32(row[4:])
		to[2], to[3] = binary.LittleEndian.Uint32(row[8:]), binary.LittleEndian.Uint32(row[12:])
	}
}

// loadTransposed is loadRows for the transposed matrix, whose rows are the columns of this one.
func loadTransposed(d *lanes32, rows *[8][]byte) {
	for pair := range 4 {
		upper, lower := (*[rowBytes]byte)(rows[2*pair]), (*[rowBytes]byte)(rows[2*pair+1])
		for column := range 8 {
			d[4*column+pair] = uint32(binary.LittleEndian.Uint16(upper[2*column:])) |
				uint32(binary.LittleEndian.Uint16(lower[2*column:]))<<16
		}
	}
}

func matrixStore(b *builder) {
	b.matrixOperands(b.arg(1), b.arg(0))
	b.out.flow = flowStore
	trans := b.in.Has("trans")
	b.out.run = func(w *warp, in *ins) {
		for i, s := range in.list {
			m := w.collect(s)
			if trans {
				m = m.transposed()
			}
			for r := range 8 {
				data := w.rowOf(in, i, r, true)
				for c := range 8 {
					putBytes(data[2*c:], uint64(m[r][c]), 2)
				}
			}
		}
	}
}

func matrixMove(b *builder) {
	b.out.kind, b.out.c = together, b.constant(class32, uint64(allLanes))
	b.out.d, b.out.a, b.out.flow = b.dst(0, "b32"), b.src(1, "b32"), flowMove
	b.out.run = func(w *warp, in *ins) {
		m := w.collect(in.a).transposed()
		for lane := range w.lanes() {
			w.set(in.d, lane, m.spread(lane))
		}
	}
}

// collect is the matrix that a register of all lanes holds.
func (w *warp) collect(r ref) *tile {
	m := &tile{}
	for lane := range warpSize {
		m.gather(lane, w.get(r, lane))
	}
	return m
}
