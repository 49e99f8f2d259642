package cubin

// This file implements a reader for the few parts of ELF that are needed. Package debug/elf reads from a file and turns
// everything it meets into Go values; here the bytes are in memory, only some sections matter, and a hostile file must
// not cost more than its size.

import (
	"bytes"
	"encoding/binary"
)

// ELF constants (System V ABI, chapter 4) and those of the CUDA machine.
const (
	machineCUDA    = 190
	typeRel        = 1
	sectionNull    = 0
	sectionSymbols = 2
	sectionNoBits  = 8
	indexExtended  = 0xffff // "the number did not fit, it stands in section 0"
	indexReserved  = 0xff00 // section indexes from here on have special meanings
	symbolFunc     = 2
	otherEntry     = 0x10 // bit of st_other: the function is a kernel
)

// elfFile is the header of an ELF file and its table of sections. Data of sections stays in data.
type elfFile struct {
	source
	data       []byte
	is64       bool
	osABI, abi byte
	fileType   uint16
	machine    uint16
	version    uint32
	flags      uint32
	sections   []section
	budget     int // bytes that may still be looked at: sections of a hostile file may all lie at the same place
}

// section is one line of the table of sections.
type section struct {
	name         []byte // part of the file
	kind         uint32
	flags        uint64
	offset, size uint64 // not checked against the file: see elfFile.content
	link, info   uint32
}

// symbol is one line of the symbol table.
type symbol struct {
	name  uint32 // offset in the string table
	info  byte
	other byte
	index uint16 // of its section
	size  uint64
}

// parseELF reads header and section table.
func parseELF(src source, data []byte) (*elfFile, error) {
	// An honest file has each section and each name once; string tables may share the ends of names.
	f := &elfFile{source: src, data: data, budget: 4 * len(data)}
	if len(data) < 52 {
		return nil, f.malformed(BadELF, 0, "the ELF header is cut off after %d bytes", len(data))
	}
	switch data[4] {
	case 1:
	case 2:
		f.is64 = true
	default:
		return nil, f.malformed(BadELF, 4, "ELF class %d is not known", data[4])
	}
	if data[5] != 1 {
		return nil, f.malformed(BadELF, 5, "byte order %d is not little-endian", data[5])
	}
	f.osABI, f.abi = data[7], data[8]
	le := binary.LittleEndian
	f.fileType, f.machine, f.version = le.Uint16(data[16:]), le.Uint16(data[18:]), le.Uint32(data[20:])
	var tableOffset uint64
	var counts []byte // the last three fields of the header: entry size, number of sections, index of the names
	if f.is64 {
		if len(data) < 64 {
			return nil, f.malformed(BadELF, 0, "the ELF header is cut off after %d bytes", len(data))
		}
		tableOffset, f.flags, counts = le.Uint64(data[40:]), le.Uint32(data[48:]), data[58:64]
	} else {
		tableOffset, f.flags, counts = uint64(le.Uint32(data[32:])), le.Uint32(data[36:]), data[46:52]
	}
	entry, count, names := uint64(le.Uint16(counts)), uint64(le.Uint16(counts[2:])), uint32(le.Uint16(counts[4:]))
	if tableOffset == 0 {
		return f, nil // a stripped executable may have no sections at all
	}
	return f, f.readSections(tableOffset, entry, count, names)
}

// readSections reads the table of count entries at offset, and resolves names through the section with that index.
func (f *elfFile) readSections(offset, entry, count uint64, names uint32) error {
	want := uint64(40)
	if f.is64 {
		want = 64
	}
	size := uint64(len(f.data))
	if entry != want {
		return f.malformed(BadELF, 0, "an entry of the section table has %d bytes, want %d", entry, want)
	}
	if offset > size || size-offset < entry {
		return f.malformed(BadELF, 0, "the section table at %#x lies beyond the end of the file", offset)
	}
	first := f.section(offset)
	if count == 0 {
		count = first.size
	}
	if names == indexExtended {
		names = first.link
	}
	if count > (size-offset)/entry {
		return f.malformed(BadELF, 0, "the section table at %#x has %d entries, which leave the file", offset, count)
	}
	if uint64(names) >= count {
		return f.malformed(BadELF, 0, "section %d, which should hold the names, does not exist", names)
	}
	f.sections = make([]section, count)
	for i := range f.sections {
		f.sections[i] = f.section(offset + uint64(i)*entry)
	}
	table, err := f.content(&f.sections[names])
	if err != nil {
		return err
	}
	for i := range f.sections {
		s := &f.sections[i]
		nameOffset := binary.LittleEndian.Uint32(f.data[offset+uint64(i)*entry:])
		if s.name, err = f.text(table, nameOffset); err != nil {
			return err
		}
	}
	return nil
}

// section reads one entry of the section table without its name; the caller knows that it lies within the file.
func (f *elfFile) section(offset uint64) section {
	le, b := binary.LittleEndian, f.data[offset:]
	if f.is64 {
		return section{
			kind: le.Uint32(b[4:]), flags: le.Uint64(b[8:]), offset: le.Uint64(b[24:]), size: le.Uint64(b[32:]),
			link: le.Uint32(b[40:]), info: le.Uint32(b[44:]),
		}
	}
	return section{
		kind: le.Uint32(b[4:]), flags: uint64(le.Uint32(b[8:])), offset: uint64(le.Uint32(b[16:])),
		size: uint64(le.Uint32(b[20:])), link: le.Uint32(b[24:]), info: le.Uint32(b[28:]),
	}
}

// content returns the bytes of a section, a part of the file.
func (f *elfFile) content(s *section) ([]byte, error) {
	size := uint64(len(f.data))
	if s.kind == sectionNull || s.kind == sectionNoBits {
		return nil, f.malformed(BadELF, 0, "section %.40q should have content and has none", s.name)
	}
	if s.offset > size || s.size > size-s.offset {
		return nil, f.malformed(BadELF, 0, "section %.40q (%d bytes at %#x) leaves the file of %d bytes",
			s.name, s.size, s.offset, size)
	}
	return f.data[s.offset : s.offset+s.size], f.spend(int(s.size))
}

// spend takes n bytes from the budget.
func (f *elfFile) spend(n int) error {
	if f.budget -= n; f.budget < 0 {
		return f.malformed(BadELF, 0, "sections or names overlap so much that they are several times as large as the file")
	}
	return nil
}

// text returns the name at offset of a string table.
func (f *elfFile) text(table []byte, offset uint32) ([]byte, error) {
	if uint64(offset) >= uint64(len(table)) {
		if offset == 0 {
			return nil, nil // no names at all
		}
		return nil, f.malformed(BadELF, 0, "a name lies at %#x of a string table of %d bytes", offset, len(table))
	}
	b := table[offset:]
	b = b[:min(len(b), maxName+1)]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return nil, f.malformed(BadELF, 0, "a name at %#x of its string table has no end within %d bytes", offset, len(b))
	}
	return b[:end], f.spend(end + 1)
}

// symbols calls visit for each symbol of the table with its number and the string table of its name.
func (f *elfFile) symbols(visit func(number uint32, sym symbol, names []byte) error) error {
	for i := range f.sections {
		s := &f.sections[i]
		if s.kind != sectionSymbols {
			continue
		}
		table, err := f.content(s)
		if err != nil {
			return err
		}
		if uint64(s.link) >= uint64(len(f.sections)) {
			return f.malformed(BadELF, int(s.offset), "the names of the symbols are in section %d, which does not exist", s.link)
		}
		names, err := f.content(&f.sections[s.link])
		if err != nil {
			return err
		}
		return f.eachSymbol(table, names, visit)
	}
	return nil
}

// eachSymbol decodes the entries of a symbol table.
func (f *elfFile) eachSymbol(table, names []byte, visit func(uint32, symbol, []byte) error) error {
	le, entry := binary.LittleEndian, 16
	if f.is64 {
		entry = 24
	}
	for number := uint32(0); len(table) >= entry; number, table = number+1, table[entry:] {
		sym := symbol{name: le.Uint32(table)}
		if f.is64 {
			sym.info, sym.other, sym.index, sym.size = table[4], table[5], le.Uint16(table[6:]), le.Uint64(table[16:])
		} else {
			sym.size, sym.info, sym.other, sym.index = uint64(le.Uint32(table[8:])), table[12], table[13], le.Uint16(table[14:])
		}
		if err := visit(number, sym, names); err != nil {
			return err
		}
	}
	return nil
}
