package cubin

// This file implements the smallest files of each kind, for fuzzing (the engine is slow with long inputs) and for what
// no toolkit at hand writes any more.

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// tinySection is a section of a tiny ELF file.
type tinySection struct {
	name    string
	kind    uint32
	flags   uint64
	link    uint32
	info    uint32
	content []byte
}

// tinyELF writes an ELF file: header, content of sections, section table. Section 0 is added in front, names at the
// end.
func tinyELF(is64 bool, osABI byte, fileType, machine uint16, flags uint32, sections ...tinySection) []byte {
	le := binary.LittleEndian
	class, header, entry := byte(1), 52, uint16(40)
	if is64 {
		class, header, entry = 2, 64, 64
	}
	file := make([]byte, header)
	names := []byte{0}
	word := func(b []byte, n uint64) []byte {
		if is64 {
			return le.AppendUint64(b, n)
		}
		return le.AppendUint32(b, uint32(n))
	}
	table := make([]byte, entry)
	sections = append(slices.Clone(sections), tinySection{name: ".shstrtab", kind: 3})
	for i, s := range sections {
		table = le.AppendUint32(le.AppendUint32(table, uint32(len(names))), s.kind)
		names = append(append(names, s.name...), 0)
		if i == len(sections)-1 {
			s.content = names
		}
		table = word(word(table, s.flags), 0)
		table = word(word(table, uint64(len(file))), uint64(len(s.content)))
		table = le.AppendUint32(le.AppendUint32(table, s.link), s.info)
		table = word(word(table, 1), 0)
		file = append(file, s.content...)
	}
	start := uint64(len(file))
	file = append(file, table...)
	copy(file, elfMagic)
	file[4], file[5], file[6], file[7], file[8] = class, 1, 1, osABI, 7
	le.PutUint16(file[16:], fileType)
	le.PutUint16(file[18:], machine)
	le.PutUint32(file[20:], 126) // e_version: CUDA 12.6 in the first layout
	counts := file[46:]
	if is64 {
		le.PutUint64(file[40:], start)
		le.PutUint32(file[48:], flags)
		counts = file[58:]
	} else {
		le.PutUint32(file[32:], uint32(start))
		le.PutUint32(file[36:], flags)
	}
	le.PutUint16(counts, entry)
	le.PutUint16(counts[2:], uint16(len(sections)+1))
	le.PutUint16(counts[4:], uint16(len(sections)))
	return file
}

// tinySymbols is a symbol table with symbol 0 and a kernel of 16 bytes in section 1, whose name is at 1 of its table.
func tinySymbols(is64 bool) []byte {
	le := binary.LittleEndian
	if is64 {
		b := append(make([]byte, 24), 1, 0, 0, 0, 0x12, otherEntry, 1, 0)
		return le.AppendUint64(le.AppendUint64(b, 0), 16)
	}
	b := le.AppendUint32(append(make([]byte, 16), 1, 0, 0, 0, 0, 0, 0, 0), 16)
	return append(b, 0x12, otherEntry, 1, 0)
}

// tinyCubin has one kernel k: 10 registers, a frame of 8 bytes, one spill of 8 bytes, 2 barriers, 100 bytes of shared
// memory.
func tinyCubin(is64 bool, osABI byte, flags uint32) []byte {
	code := make([]byte, 16)
	binary.LittleEndian.PutUint64(code, 0x7000|opcodeSTL)
	binary.LittleEndian.PutUint64(code[8:], 5<<widthShift)
	info := []byte{
		formatSized, attrRegCount, 8, 0, 1, 0, 0, 0, 10, 0, 0, 0,
		formatSized, attrFrameSize, 8, 0, 1, 0, 0, 0, 8, 0, 0, 0,
		formatSized, attrMinStackSize, 8, 0, 1, 0, 0, 0, 8, 0, 0, 0,
	}
	infoOf := []byte{
		formatSized, attrToolkit, 4, 0, 126, 0, 0, 0,
		formatSized, attrParam, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x21, 0,
		formatSized, attrAnnotations, 8, 0, annotationSpill, 0, 0, 0, 0, 0, 0, 0,
		formatByte, attrBarriers, 2, 0,
		formatHalf, attrParamBytes, 8, 0,
	}
	return tinyELF(is64, osABI, 2, machineCUDA, flags,
		tinySection{name: ".text.k", kind: 1, flags: 2 << 20, info: 12<<24 | 1, content: code},
		tinySection{name: ".strtab", kind: 3, content: []byte("\x00k\x00")},
		tinySection{name: ".symtab", kind: sectionSymbols, link: 2, content: tinySymbols(is64)},
		tinySection{name: ".nv.info", kind: 0x70000000, content: info},
		tinySection{name: ".nv.info.k", kind: 0x70000000, content: infoOf},
		tinySection{name: ".nv.shared.k", kind: 0x7000000a, content: make([]byte, 100)},
		tinySection{name: ".nv.local.k", kind: 1, content: make([]byte, 24)},
		tinySection{name: ".nv.constant0.k", kind: 1, content: make([]byte, 40)},
		tinySection{name: ".nv.constant3", kind: 1, content: make([]byte, 4)},
		tinySection{name: ".nv.compat", kind: 0x70000086, content: []byte{formatByte, compatAccelerator, 1, 0}},
	)
}

// tinyFatbin has one entry per payload, unpacked unless flags say otherwise.
func tinyFatbin(kind uint16, flags uint64, payload []byte, size int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64([]byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0}, uint64(entryHeader+len(payload)))
	b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, kind), 0x101), entryHeader)
	b = le.AppendUint64(b, uint64(len(payload)))
	b = le.AppendUint64(b, uint64(len(payload)))
	b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, 2), 9), 90)
	b = le.AppendUint64(append(b, make([]byte, 8)...), flags)
	b = le.AppendUint64(le.AppendUint64(b, 0), uint64(size))
	return append(b, payload...)
}

// packLZ4 writes a block of literals alone.
func packLZ4(data []byte) []byte {
	packed := []byte{0xf0}
	for n := len(data) - 15; ; n -= 255 {
		if n < 255 {
			packed = append(packed, byte(n))
			break
		}
		packed = append(packed, 255)
	}
	return append(packed, data...)
}

// tinyFiles are the seeds of FuzzRead.
func tinyFiles(t testing.TB) [][]byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	modern, old := tinyCubin(true, osABINew, 90<<8|4), tinyCubin(true, osABIOld, 80|0x500)
	text := []byte("//\n.version 9.2\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n\x00")
	packed := encoder.EncodeAll(modern, nil)
	fatbin := tinyFatbin(entryPTX, flag64Bit, text, 0)
	return [][]byte{
		modern, old, tinyCubin(false, osABIOld, 60|0x100), fatbin,
		tinyFatbin(entryELF, flag64Bit, old, 0),
		tinyFatbin(entryELF, flag64Bit|flagLZ4, packLZ4(old), len(old)),
		tinyFatbin(entryELF, flag64Bit|flagZstd, packed, len(modern)),
		tinyFatbin(8, flag64Bit|flagFamily, []byte("IR"), 0),
		tinyELF(true, 0, 1, 62, 0, tinySection{name: ".nv_fatbin", kind: 1, content: append(make([]byte, 8), fatbin...)}),
	}
}

// TestTinyFiles: what was written is what is read, for a 32-bit cubin, too, which toolkits stopped to write.
func TestTinyFiles(t *testing.T) {
	for i, data := range tinyFiles(t) {
		file, err := Read("tiny", data)
		if err != nil {
			t.Errorf("file %d: %v", i, err)
			continue
		}
		want := []string{"elf sm_90a 12.6", "elf sm_80a 12.6", "elf sm_60a 12.6", "ptx sm_90a 9.2", "elf sm_80a 12.6",
			"elf sm_80a 12.6 compressed", "elf sm_90a 12.6 compressed", "other sm_90f ", "ptx sm_90a 9.2"}[i]
		if got := describe(file.Images[0]); got != want {
			t.Errorf("file %d is %q, want %q", i, got, want)
		}
	}
	for _, is64 := range []bool{true, false} {
		file, err := Read("tiny", tinyCubin(is64, osABIOld, 80|0x500))
		if err != nil {
			t.Fatal(err)
		}
		img := file.Images[0]
		k := img.Kernels[0]
		if k.Name != "k" || *k.Registers != 10 || *k.StackFrame != 8 || *k.MinStack != 8 || *k.Shared != 100 ||
			k.Local != 24 || k.Constant[0] != 40 || img.Constant[3] != 4 || k.Barriers != 2 || k.CodeBytes != 16 ||
			*k.SpillStores != 8 || *k.SpillLoads != 0 || k.ParamBytes != 8 ||
			!slices.Equal(k.Params, []Param{{0, 8}}) || img.Bits == 64 != is64 {
			t.Errorf("64 bits: %v: %s", is64, asJSON(t, img))
		}
	}
}

// TestArch: where each layout has the architecture.
func TestArch(t *testing.T) {
	for _, tt := range []struct {
		osABI byte
		flags uint32
		want  string
	}{
		{osABIOld, 0x500050, "sm_80"}, {osABIOld, 0x5a0d5a, "sm_90a"},
		{osABINew, 0x6006402, "sm_100"}, {osABINew, 0x600640a, "sm_100a"}, {osABINew, 0x6005a04, "sm_90"},
	} {
		file, err := Read("tiny", tinyELF(true, tt.osABI, 2, machineCUDA, tt.flags))
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Images[0].Arch; got != tt.want {
			t.Errorf("flags %#x in layout %#x: %s, want %s", tt.flags, tt.osABI, got, tt.want)
		}
	}
}

// TestManySections: numbers that do not fit into the header stand in section 0.
func TestManySections(t *testing.T) {
	data := tinyCubin(true, osABINew, 90<<8)
	le := binary.LittleEndian
	table := le.Uint64(data[40:])
	le.PutUint64(data[table+32:], uint64(le.Uint16(data[60:])))
	le.PutUint32(data[table+40:], uint32(le.Uint16(data[62:])))
	file, err := Read("tiny", changed(data, 60, 0, 0, 0xff, 0xff))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Images[0].Kernels) != 1 {
		t.Errorf("%d kernels, want 1", len(file.Images[0].Kernels))
	}
}

// TestLongName: a name has a limit, and one just below it is read.
func TestLongName(t *testing.T) {
	for _, length := range []int{maxName, maxName + 1} {
		name := strings.Repeat("x", length)
		_, err := Read("tiny", tinyELF(true, osABINew, 2, machineCUDA, 90<<8,
			tinySection{name: ".text.k", kind: 1, content: make([]byte, 16)},
			tinySection{name: ".strtab", kind: 3, content: []byte("\x00" + name + "\x00")},
			tinySection{name: ".symtab", kind: sectionSymbols, link: 2, content: tinySymbols(true)}))
		if refused := err != nil; refused != (length > maxName) {
			t.Errorf("a name of %d bytes: %v", length, err)
		}
	}
}

// TestRegistersOfOldCode: up to Pascal the number of registers stands in the section header as well.
func TestRegistersOfOldCode(t *testing.T) {
	data := tinyCubin(true, osABIOld, 60|0x500)
	at := sectionAt(t, data, ".nv.info")
	offset := binary.LittleEndian.Uint64(data[at+24:])
	file, err := Read("tiny", changed(data, int(offset)+1, 0)) // the record has another meaning
	if err != nil {
		t.Fatal(err)
	}
	if k := file.Images[0].Kernels[0]; k.Registers == nil || *k.Registers != 12 {
		t.Errorf("registers = %s, want 12", show(k.Registers))
	}
}
