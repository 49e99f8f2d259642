package cubin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// isUserError reports whether err says file, code and hint, in few words: whatever is refused is refused like that.
func isUserError(err error) bool {
	var e *diag.Error
	return errors.As(err, &e) && e.Code != "" && e.Hint != "" && e.Pos.File != "" && len(err.Error()) < 2000
}

func checkUserError(t testing.TB, err error) {
	t.Helper()
	if !isUserError(err) {
		t.Fatalf("error without file, code or hint, or too long: %v", err)
	}
}

// changed returns a copy of data with some bytes replaced.
func changed(data []byte, offset int, with ...byte) []byte {
	data = bytes.Clone(data)
	copy(data[offset:], with)
	return data
}

// sectionAt returns the offset in data of the header of the section with that name.
func sectionAt(t *testing.T, data []byte, name string) int {
	t.Helper()
	f, err := parseELF(source{}, data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.sections {
		if string(f.sections[i].name) == name {
			return int(binary.LittleEndian.Uint64(data[40:])) + 64*i
		}
	}
	t.Fatalf("no section %s", name)
	return 0
}

func TestFaults(t *testing.T) {
	cubin, fatbin := testFile(t, "sm80-13.2.cubin"), testFile(t, "none.fatbin")
	lz4, zstd, library := testFile(t, "speed.fatbin"), testFile(t, "size.fatbin"), testFile(t, "library.so")
	spilling := testFile(t, "sm90a-13.2-24.cubin")
	table := int(binary.LittleEndian.Uint64(cubin[40:]))
	info := func(data []byte, name string, at int, with ...byte) []byte {
		offset := binary.LittleEndian.Uint64(data[sectionAt(t, data, name)+24:])
		return changed(data, int(offset)+at, with...)
	}
	all := bytes.Repeat([]byte{0xff}, 8)
	for _, tt := range []struct {
		name string
		data []byte
		code diag.Code
		want string // part of the message
		hint string // part of the hint
	}{
		{"empty", nil, NotBinary, "the file is empty", "nvcc -cubin"},
		{"text", []byte("hello, world"), NotBinary, `it starts with "hello, w"`, "nvcc -cubin"},
		{"ptx", []byte("//\n.version 8.0\n.target sm_80\n"), NotBinary, "this is PTX text", "read it as PTX"},
		{"archive", []byte("!<arch>\n"), NotBinary, "static library", "ar x"},
		{"windows", []byte("MZ\x90\x00"), NotBinary, "Windows executable", "--extract-elf"},
		{"host without device code", changed(library, int(sectionAtName(t, library, ".nv_fatbin")), 0, 0, 0, 0),
			NoDeviceCode, "no device code in it", "nvcc -c"},
		{"empty fatbin", append(changed(fatbin[:16], 8), 0)[:16], BadFatbin, "only 0 are left", "copy it again"},
		{"fatbin without images", changed(fatbin[:16], 8, make([]byte, 8)...), NoDeviceCode, "no device code in it", "nvcc"},

		{"magic alone", cubin[:4], BadELF, "offset 0x0: the ELF header is cut off after 4 bytes", "damaged"},
		{"half a header", cubin[:60], BadELF, "the ELF header is cut off after 60 bytes", "damaged"},
		{"class", changed(cubin, 4, 3), BadELF, "offset 0x4: ELF class 3", "damaged"},
		{"byte order", changed(cubin, 5, 2), BadELF, "byte order 2 is not little-endian", "damaged"},
		{"layout", changed(cubin, 7, 0x99), BadELF, "unknown layout 0x99", "damaged"},
		{"truncated", cubin[:len(cubin)/2], BadELF, "section table", "damaged"},
		{"entry size", changed(cubin, 58, 65), BadELF, "has 65 bytes, want 64", "damaged"},
		{"section count", changed(cubin, 60, 0xff, 0x7f), BadELF, "32767 entries, which leave the file", "damaged"},
		{"names", changed(cubin, 62, 0xff, 0x7f), BadELF, "section 32767, which should hold the names", "damaged"},
		{"table offset", changed(cubin, 40, all...), BadELF, "lies beyond the end", "damaged"},
		{"name", changed(cubin, table+64*5, all[:4]...), BadELF, "a name lies at 0xffffffff", "damaged"},
		{"section size", changed(cubin, sectionAt(t, cubin, ".nv.info")+32, all...), BadELF, "leaves the file", "damaged"},
		{"section offset", changed(cubin, sectionAt(t, cubin, ".symtab")+24, all...), BadELF, "leaves the file", "damaged"},
		{"symbol names", changed(cubin, sectionAt(t, cubin, ".symtab")+40, all[:4]...), BadELF, "the names of the symbols",
			"damaged"},
		{"no content", changed(cubin, sectionAt(t, cubin, ".nv.info")+4, sectionNoBits, 0, 0, 0), BadELF,
			"should have content and has none", "damaged"},
		{"code size", changed(cubin, sectionAt(t, cubin, ".text.copy")+32, 1, 0, 0, 0), BadELF,
			`kernel "copy" has 384 bytes of code in a section of 1`, "damaged"},
		{"memory size", changed(cubin, sectionAt(t, cubin, ".nv.global")+32, 0, 0, 0, 0, 0, 2), BadELF, "more than any GPU",
			"damaged"},

		{"record format", info(cubin, ".nv.info.copy", 0, 9), BadRecord, "has the unknown format 9", "damaged"},
		{"record size", info(cubin, ".nv.info.copy", 2, 0xff, 0xff), BadRecord, "bytes and", "damaged"},
		{"record cut off", changed(cubin, sectionAt(t, cubin, ".nv.info.copy")+32, 10), BadRecord, "cut off", "damaged"},
		{"spill beyond the code", info(spilling, ".nv.info.wide", spillRecord(t, spilling, "wide"), all[:4]...), BadRecord,
			"has a spill at 0xffffffff", "damaged"},

		{"fatbin cut off", fatbin[:10], BadFatbin, "a fatbin should start here", "damaged"},
		{"fatbin version", changed(fatbin, 4, 2), BadFatbin, "has version 2", "damaged"},
		{"fatbin size", changed(fatbin, 8, all...), BadFatbin, "18446744073709551615 bytes and only", "damaged"},
		{"entry cut off", changed(fatbin, 8, 20, 0), BadFatbin, "offset 0x10: the header of an image is cut off", "damaged"},
		{"entry header", changed(fatbin, 20, 8), BadFatbin, "with a header of 8 leaves its fatbin", "damaged"},
		{"entry size", changed(fatbin, 24, all...), BadFatbin, "leaves its fatbin", "damaged"},
		{"second fatbin", append(bytes.Clone(fatbin), 0, 0, 0, 0, 7), BadFatbin, "a fatbin should start here", "damaged"},
		{"host ELF as image", changed(fatbin, 80+18, 62, 0), BadELF, "ELF file for machine 62, not for CUDA", "damaged"},
		{"two packings", changed(fatbin, 16+41, 0xa0), BadPacked, "compressed in two ways", "damaged"},
		{"packed size", changed(lz4, 16+16, all[:4]...), BadPacked, "compressed bytes in a payload of", "damaged"},
		{"unpacked size", changed(lz4, 16+56, all...), TooLarge, "the image unpacks to 18446744073709551615 bytes",
			"--extract-elf"},
		{"size of one image", changed(lz4, 16+56, 1, 0, 0, 0x10), TooLarge, "the image unpacks to 268435457 bytes",
			"--extract-elf"},
		{"LZ4 size", changed(lz4, 16+56, 1, 2, 0, 0), BadPacked, "LZ4: more bytes come out", "damaged"},
		{"LZ4 claim", changed(lz4, 16+56, 0, 0, 0, 8), BadPacked, "LZ4: fewer bytes come out", "damaged"},
		{"zstd magic", changed(zstd, 16+64, 0), BadPacked, "Zstandard: ", "damaged"},
		{"zstd size", changed(zstd, 16+56, 1, 2, 0, 0), BadPacked, "should unpack to 513", "damaged"},
		{"zstd claim", tinyFatbin(entryELF, flagZstd, []byte("\x28\xb5\x2f\xfd\xa0\x00\x00\x80\x0c\x01\x00\x00"), 200<<20),
			BadPacked, "12 bytes cannot unpack to 209715200", "damaged"},
		{"zstd body", changed(zstd, 16+64+100, all...), BadPacked, "Zstandard: ", "damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := Read("k.bin", tt.data)
			if err == nil {
				t.Fatalf("Read = %d images, want an error with %q", len(file.Images), tt.want)
			}
			checkUserError(t, err)
			if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), "k.bin: ") || !strings.Contains(diag.HintOf(err), tt.hint) {
				t.Errorf("Read: %v (hint: %s)\nwant code %s, %q, hint %q", err, diag.HintOf(err), tt.code, tt.want, tt.hint)
			}
		})
	}
}

// sectionAtName returns the offset of the first byte of a name in the table of section names.
func sectionAtName(t *testing.T, data []byte, name string) int {
	t.Helper()
	at := bytes.LastIndex(data, append([]byte(name), 0))
	if at < 0 {
		t.Fatalf("no name %s", name)
	}
	return at
}

// spillRecord returns where the offset of the first marked spill stands in the records of a kernel.
func spillRecord(t *testing.T, data []byte, kernel string) int {
	t.Helper()
	header := sectionAt(t, data, nameInfoOf+kernel)
	offset := int(binary.LittleEndian.Uint64(data[header+24:]))
	at := bytes.Index(data[offset:], []byte{formatSized, attrAnnotations})
	if at < 0 {
		t.Fatalf("kernel %s has no spills", kernel)
	}
	return at + 8
}

// TestOverlap: many sections at one place must not cost more than the file is long.
func TestOverlap(t *testing.T) {
	data := testFile(t, "sm80-13.2.cubin")
	f, err := parseELF(source{}, data)
	if err != nil {
		t.Fatal(err)
	}
	table := int(binary.LittleEndian.Uint64(data[40:]))
	data = bytes.Clone(data)
	for i := range f.sections {
		if bytes.HasPrefix(f.sections[i].name, []byte(nameInfo)) {
			binary.LittleEndian.PutUint64(data[table+64*i+24:], 0)
			binary.LittleEndian.PutUint64(data[table+64*i+32:], uint64(len(data)))
		}
	}
	// Records of one format, so that all of the file would be read again and again.
	copy(data[64:], bytes.Repeat([]byte{formatNone, 0, 0, 0}, 4))
	_, err = Read("k.cubin", data)
	if err == nil {
		t.Fatal("Read accepts sections that overlap all of the file")
	}
	checkUserError(t, err)
	f, err = parseELF(source{}, data)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if n > 5 {
			t.Fatal("the content of sections may be looked at without end")
		}
		if _, err := f.content(&section{kind: 1, size: uint64(len(data))}); err != nil {
			if !strings.Contains(err.Error(), "overlap so much") {
				t.Error(err)
			}
			return
		}
	}
}

// TestSpillsUnknown: what cannot be known is not 0.
func TestSpillsUnknown(t *testing.T) {
	data := testFile(t, "sm90a-13.2-24.cubin")
	header := sectionAt(t, data, nameInfoOf+"wide")
	offset := int(binary.LittleEndian.Uint64(data[header+24:])) + spillRecord(t, data, "wide")
	text := int(binary.LittleEndian.Uint64(data[sectionAt(t, data, ".text.wide")+24:]))
	first := text + int(binary.LittleEndian.Uint32(data[offset:]))
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"an annotation of another kind", changed(data, offset-4, 2)},
		{"an instruction that is no access to local memory", changed(data, first, 0, 0)},
		{"a width that does not exist", changed(data, first+9, data[first+9]|0x0e)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := Read("k.cubin", tt.data)
			if err != nil {
				t.Fatal(err)
			}
			k := kernelNamed(t, file.Images[0], "wide")
			if k.SpillLoads != nil || k.SpillStores != nil {
				t.Errorf("spills %s and %s, want not known", show(k.SpillStores), show(k.SpillLoads))
			}
		})
	}
}

func TestLocalAccess(t *testing.T) {
	for _, tt := range []struct {
		opcode uint64
		width  uint64
		want   int
		store  bool
		ok     bool
	}{
		{opcodeLDL, 0, 1, false, true}, {opcodeLDL, 1, 1, false, true}, {opcodeSTL, 2, 2, true, true},
		{opcodeSTL, 3, 2, true, true}, {opcodeLDL, 4, 4, false, true}, {opcodeSTL, 5, 8, true, true},
		{opcodeLDL, 6, 16, false, true}, {opcodeLDL, 7, 0, false, false}, {0x981, 4, 0, false, false},
	} {
		var instr [16]byte
		binary.LittleEndian.PutUint64(instr[:], 0x7000|tt.opcode)
		binary.LittleEndian.PutUint64(instr[8:], tt.width<<9)
		width, store, ok := localAccess(instr[:])
		if width != tt.want || store != tt.store || ok != tt.ok {
			t.Errorf("localAccess(opcode %#x, width code %d) = %d, %v, %v, want %d, %v, %v", tt.opcode, tt.width,
				width, store, ok, tt.want, tt.store, tt.ok)
		}
	}
}

func TestUnpackLZ4(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		name, in, out string
		err           error
	}{
		{"literals", "\x50hello", "hello", nil},
		{"nothing", "\x00", "", nil},
		{"copy", "\x44abcd\x04\x00\x10!", "abcdabcdabcd!", nil},
		{"overlapping copy", "\x1fx\x01\x00\xff\x19\x00", long, nil},
		{"long literals", "\xf0\xff\x1e" + long, long, nil},
		{"empty", "", "", errLZ4Short},
		{"literals missing", "\x50hell", "hello", errLZ4Short},
		{"length missing", "\xf0\xff", long, errLZ4Short},
		{"distance missing", "\x14x\x01", "xxxxx", errLZ4Short},
		{"distance 0", "\x14x\x00\x00\x00", "xxxxx", errLZ4Offset},
		{"before the start", "\x14x\x02\x00\x00", "xxxxx", errLZ4Offset},
		{"too many literals", "\x50hello", "hell", errLZ4Long},
		{"too long a copy", "\x14x\x01\x00\x00", "xxx", errLZ4Long},
		{"too few", "\x50hello", "hello!", errLZ4Size},
		{"impossible", "\x50hello", strings.Repeat("x", 6*255+1), errLZ4Size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := unpackLZ4([]byte(tt.in), len(tt.out))
			if !errors.Is(err, tt.err) || err == nil && string(got) != tt.out {
				t.Errorf("unpackLZ4(%q) = %q, %v, want %q, %v", tt.in, got, err, tt.out, tt.err)
			}
		})
	}
	// No memory is taken for what cannot come out: this is more than the machine has.
	if _, err := unpackLZ4([]byte("\x50hello"), 1<<50); !errors.Is(err, errLZ4Size) {
		t.Errorf("unpackLZ4 of a petabyte: %v, want %v", err, errLZ4Size)
	}
}

func TestStrings(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Cubin.String(), "cubin"}, {Host.String(), "host file"}, {Container(0).String(), "unset"},
		{Container(9).String(), "unset"}, {PTX.String(), "ptx"}, {Kind(0).String(), "unset"}, {Kind(9).String(), "unset"},
		{toolkitText(132), "13.2"}, {toolkitText(1), ""}, {toolkitText(1 << 30), ""},
		{ptxTarget("//\n.version 8.0\n.target sm_90a, debug\n"), "sm_90a"}, {ptxTarget(".target\n"), ""},
		{ptxTarget("\n.target sm_90"), ""}, {ptxTarget("\n.target nonsense\n"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
