package cubin

// This file implements the way from an ELF file to an Image with its kernels.

import (
	"bytes"
	"fmt"
	"strconv"
)

// The two layouts of the ELF header of cubins. Up to CUDA 12 code for architectures before Blackwell has the first,
// code for Blackwell the second; CUDA 13 writes the second for all.
const (
	osABIOld = 0x33 // architecture in the low byte of e_flags, toolkit in e_version
	osABINew = 0x41 // architecture in the second byte of e_flags

	flagAccelOld = 0x800 // "sm_90a" in the first layout
	flagAccelNew = 0x8   // "sm_100a" in the second one up to CUDA 12.9; later it stands in .nv.compat

	// From Hopper on, shared memory of a block begins with reservedShared bytes that belong to the system.
	firstReservedArch = 90
	reservedShared    = 1024
)

// Names of sections; those with a dot at the end are followed by the name of a kernel.
const (
	nameInfo       = ".nv.info"
	nameInfoOf     = ".nv.info."
	nameCompat     = ".nv.compat"
	nameConstant   = ".nv.constant"
	nameSharedOf   = ".nv.shared."
	nameLocalOf    = ".nv.local."
	nameGlobal     = ".nv.global"
	nameGlobalInit = ".nv.global.init"
)

// Fatbin sections of host files: one for linked code, one for relocatable code.
var hostSections = []string{".nv_fatbin", "__nv_relfatbin"}

// readELF reads a cubin, or the fatbins in a host file.
func (file *File) readELF(src source, data []byte) error {
	f, err := parseELF(src, data)
	if err != nil {
		return err
	}
	if f.machine == machineCUDA {
		file.Container = Cubin
		img, err := readImage(f)
		file.Images = append(file.Images, img)
		return err
	}
	file.Container = Host
	r := fatbinReader{src: src, file: file}
	defer r.close()
	for i := range f.sections {
		s := &f.sections[i]
		for _, name := range hostSections {
			if string(s.name) != name || s.kind == sectionNoBits || s.size == 0 {
				continue
			}
			content, err := f.content(s)
			if err != nil {
				return err
			}
			if err := r.readAll(content, int(s.offset)); err != nil {
				return err
			}
		}
	}
	if len(file.Images) == 0 {
		return src.errorf(NoDeviceCode, "compile it with nvcc -c or clang -x cuda, and do not strip its sections",
			"no device code in it: there is no section .nv_fatbin or __nv_relfatbin with images")
	}
	return nil
}

// imageReader turns the sections of a cubin into kernels.
type imageReader struct {
	*elfFile
	img      Image
	arch     int
	accel    bool // the suffix a of the architecture
	byName   map[string]int
	bySymbol map[uint32]int // indexes of working
	working  []working
}

// working is a kernel while its sections are read.
type working struct {
	Kernel
	text    *section
	toolkit int // 126 is CUDA 12.6; 0 when not recorded
	params  []orderedParam
	spills  spills
}

// readImage reads a cubin.
func readImage(f *elfFile) (Image, error) {
	r := imageReader{elfFile: f, byName: map[string]int{}, bySymbol: map[uint32]int{}}
	r.img = Image{Kind: ELF, Bits: 32, Offset: f.base, Compressed: f.unpacked, Relocatable: f.fileType == typeRel}
	if f.is64 {
		r.img.Bits = 64
	}
	switch f.osABI {
	case osABIOld:
		r.arch, r.accel = int(f.flags&0xff), f.flags&flagAccelOld != 0
		r.img.Version = toolkitText(int(f.version))
	case osABINew:
		r.arch, r.accel = int(f.flags>>8&0xff), f.flags&flagAccelNew != 0
	default:
		return Image{}, f.malformed(BadELF, 7, "this ELF file for CUDA has the unknown layout %#x (version %d)",
			f.osABI, f.abi)
	}
	if err := f.symbols(r.addKernel); err != nil {
		return Image{}, err
	}
	if err := r.readSections(); err != nil {
		return Image{}, err
	}
	return r.finish()
}

// addKernel notes a symbol if it is a kernel that this file defines.
func (r *imageReader) addKernel(number uint32, sym symbol, names []byte) error {
	if sym.info&0xf != symbolFunc || sym.other&otherEntry == 0 || sym.index == 0 || sym.index >= indexReserved {
		return nil
	}
	if int(sym.index) >= len(r.sections) {
		return r.malformed(BadELF, 0, "symbol %d lies in section %d, which does not exist", number, sym.index)
	}
	name, err := r.text(names, sym.name)
	if err != nil {
		return err
	}
	text := &r.sections[sym.index]
	if sym.size > text.size {
		return r.malformed(BadELF, int(min(text.offset, uint64(len(r.data)))),
			"kernel %.80q has %d bytes of code in a section of %d", name, sym.size, text.size)
	}
	w := working{Kernel: Kernel{Name: string(name), CodeBytes: int(sym.size)}, text: text}
	if r.osABI == osABIOld {
		// Other fields of the header of the code, which the second layout moved to records. Registers are there up to
		// Pascal.
		w.Barriers = int(text.flags >> 20 & 0x7f)
		if n := int(text.info >> 24); n > 0 {
			w.Registers = &n
		}
	}
	r.byName[w.Name] = len(r.working)
	r.bySymbol[number] = len(r.working)
	r.working = append(r.working, w)
	return nil
}

// readSections reads what the sections beside the code say.
func (r *imageReader) readSections() error {
	for i := range r.sections {
		s := &r.sections[i]
		if !bytes.HasPrefix(s.name, []byte(".nv.")) {
			continue
		}
		var err error
		switch name := string(s.name); {
		case name == nameInfo:
			err = r.readInfo(s, nil)
		case name == nameCompat:
			err = r.readCompat(s)
		case name == nameGlobal || name == nameGlobalInit:
			r.img.Global, err = r.sum(r.img.Global, s)
		default:
			err = r.readKernelSection(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readKernelSection reads a section of one kernel, or a constant bank that all share.
func (r *imageReader) readKernelSection(s *section) error {
	if rest, ok := bytes.CutPrefix(s.name, []byte(nameConstant)); ok {
		return r.readConstant(s, rest)
	}
	for _, prefix := range []string{nameInfoOf, nameSharedOf, nameLocalOf} {
		rest, ok := bytes.CutPrefix(s.name, []byte(prefix))
		if !ok {
			continue
		}
		k, ok := r.byName[string(rest)]
		if !ok {
			return nil // of a function that is no kernel
		}
		w := &r.working[k]
		var err error
		switch prefix {
		case nameInfoOf:
			err = r.readInfo(s, w)
		case nameSharedOf:
			var n int
			n, err = r.sum(0, s)
			w.Shared = &n
		case nameLocalOf:
			w.Local, err = r.sum(w.Local, s)
		}
		return err
	}
	return nil
}

// readConstant notes the size of ".nv.constantBANK" or ".nv.constantBANK.KERNEL"; rest is what follows ".nv.constant".
func (r *imageReader) readConstant(s *section, rest []byte) error {
	digits, kernel, ofKernel := bytes.Cut(rest, []byte("."))
	bank, err := strconv.ParseUint(string(digits), 10, 8)
	if err != nil {
		return nil // ".nv.constant_something" is no bank
	}
	banks := &r.img.Constant
	if ofKernel {
		k, ok := r.byName[string(kernel)]
		if !ok {
			return nil
		}
		banks = &r.working[k].Constant
	}
	if *banks == nil {
		*banks = map[int]int{}
	}
	n, err := r.sum((*banks)[int(bank)], s)
	(*banks)[int(bank)] = n
	return err
}

// sum adds the size of a section to before. Sizes of sections without content are not bounded by the file.
func (r *imageReader) sum(before int, s *section) (int, error) {
	const most = 1 << 40 // no GPU has as much memory
	if s.size > most || before+int(s.size) > most {
		return 0, r.malformed(BadELF, 0, "section %.80q has %d bytes, more than any GPU", s.name, s.size)
	}
	return before + int(s.size), nil
}

// finish computes what follows from all sections together.
func (r *imageReader) finish() (Image, error) {
	img := r.img
	img.Arch = fmt.Sprintf("sm_%d", r.arch)
	if r.accel {
		img.Arch += "a"
	}
	for i := range r.working {
		w := &r.working[i]
		if img.Version == "" {
			img.Version = toolkitText(w.toolkit)
		}
		r.finishShared(w)
		if err := r.finishSpills(w); err != nil {
			return Image{}, err
		}
		w.Params = inOrder(w.params)
		img.Kernels = append(img.Kernels, w.Kernel)
	}
	return img, nil
}

// finishShared splits shared memory into what the source declares and what the system reserves.
func (r *imageReader) finishShared(w *working) {
	if r.img.Relocatable {
		w.Shared = nil // variables get their places when the code is linked
		return
	}
	if w.Shared == nil {
		w.Shared = new(int)
	}
	static := *w.Shared
	if r.arch >= firstReservedArch && static >= reservedShared {
		static -= reservedShared
	}
	w.SharedStatic = &static
}

// toolkitText writes 126 as "12.6"; "" if there is no such toolkit.
func toolkitText(version int) string {
	if version < 10 || version > 9999 {
		return ""
	}
	return fmt.Sprintf("%d.%d", version/10, version%10)
}
