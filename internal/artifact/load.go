package artifact

// This file implements reading: what a file is, by its content, and the records of its kernels.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gpuemu/internal/cubin"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
	"gpuemu/internal/sass"
)

// maxFile is the largest file that is read. Libraries with device code for many architectures have up to some GB; their
// cubins can be taken out and given one by one.
const maxFile = 1 << 30

// Format is what a file is.
type Format string

// Formats that are told apart by content. A CUDA source is told by its name, too, and is never read as anything else.
const (
	FormatPTX    Format = "ptx"
	FormatCubin  Format = "cubin"
	FormatFatbin Format = "fatbin"
	FormatHost   Format = "host" // an object, library or executable with device code in it
	FormatSASS   Format = "sass"
	FormatSource Format = "cuda" // source text, to be compiled
)

// File is what was read.
type File struct {
	Name    string
	Format  Format
	Digest  string            // SHA-256 of the content, in hexadecimal
	Kernels []Metrics         // by name and architecture; never empty
	Texts   map[string]string // PTX texts in it by digest (Source.Digest), for a semantic comparison
	Log     string            // what the compiler said, of a source
}

// Options say which programs are called, and how.
type Options struct {
	Tools func() *cudatool.Tools // asked when a program is needed; nil: those that cudatool.Find finds
	Arch  string                 // what a source is compiled for; "": cudatool.DefaultArch
	Flags []string               // further arguments of the compiler
	// Disassemble asks for the instructions of machine code, where cuobjdump or nvdisasm is installed.
	Disassemble bool
}

func (o *Options) tools(ctx context.Context) *cudatool.Tools {
	if o.Tools == nil {
		return cudatool.Find(ctx)
	}
	return o.Tools()
}

// Load reads a file, and compiles it first if it is a CUDA source. Where no compiler is installed the error has the
// code cudatool.Missing.
func Load(ctx context.Context, path string, o Options) (*File, error) {
	// O_NONBLOCK: opening a pipe that nobody writes to must fail below and not hang here.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, diag.Errorf(Unreadable, "check the path", "%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, diag.Errorf(Unreadable, "check the path", "%w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, diag.Errorf(Unreadable, "give a file", "this is no regular file").At(diag.Pos{File: path})
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, diag.Errorf(Unreadable, "check the path", "%w", err)
	}
	if Detect(path, data) == FormatSource {
		return compile(ctx, path, data, o)
	}
	file, err := Read(path, data)
	if err == nil && o.Disassemble && file.Format != FormatPTX && file.Format != FormatSASS {
		err = file.disassemble(ctx, o.tools(ctx), data)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Detect says what a file is, "" if it is none of the known formats. The name counts for CUDA sources alone.
func Detect(name string, data []byte) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".cu", ".cuh":
		return FormatSource
	}
	return detectContent(data)
}

func detectContent(data []byte) Format {
	switch {
	case bytes.HasPrefix(data, []byte("\x7fELF")):
		return detectELF(data)
	case bytes.HasPrefix(data, []byte{0x50, 0xed, 0x55, 0xba}):
		return FormatFatbin
	case bytes.IndexByte(bytes.TrimRight(data, "\x00"), 0) >= 0:
		return "" // neither text
	}
	text := data[:min(len(data), 1<<20)]
	switch {
	case startsAsPTX(text):
		return FormatPTX
	case isListing(string(text)):
		return FormatSASS
	case bytes.Contains(text, []byte("__global__")):
		return FormatSource
	}
	return ""
}

// emCUDA is the machine number of device code in ELF files.
const emCUDA = 190

func detectELF(data []byte) Format {
	if len(data) > 19 && int(data[18])|int(data[19])<<8 == emCUDA {
		return FormatCubin
	}
	return FormatHost
}

// startsAsPTX reports whether the first thing behind comments and white space is .version.
func startsAsPTX(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for {
		text = bytes.TrimLeft(text, " \t\r\n")
		switch {
		case bytes.HasPrefix(text, []byte("//")):
			_, text, _ = bytes.Cut(text, []byte("\n"))
		case bytes.HasPrefix(text, []byte("/*")):
			_, text, _ = bytes.Cut(text, []byte("*/"))
		default:
			return bytes.HasPrefix(text, []byte(".version"))
		}
	}
}

// Read reads the content of a file. It executes nothing: a CUDA source is refused.
func Read(name string, data []byte) (*File, error) { return read(name, Detect(name, data), data) }

func read(name string, format Format, data []byte) (*File, error) {
	at := diag.Pos{File: name}
	if len(data) > maxFile {
		return nil, diag.Errorf(Limit, "take out the cubins with cuobjdump --extract-elf all, and give one",
			"the file has more than %d bytes", maxFile).At(at)
	}
	f := &File{Name: name, Format: format, Digest: digest(data), Texts: map[string]string{}}
	var err error
	switch f.Format {
	case FormatPTX:
		err = f.readPTX(strings.TrimRight(string(data), "\x00"), f.Digest)
	case FormatCubin, FormatFatbin, FormatHost:
		err = f.readBinary(data)
	case FormatSASS:
		var functions []sass.Function
		functions, err = sass.Parse(name, data)
		f.Kernels = sassMetrics(name, f.Digest, functions)
	case FormatSource:
		err = diag.Errorf(UnknownFormat, "give the source as a file, or the compiled PTX", "this is a CUDA source").At(at)
	default:
		err = diag.Errorf(UnknownFormat, "give PTX text, a cubin, a fatbin, a host file with device code, or a listing of "+
			"cuobjdump -sass or nvdisasm", "this is none of the known formats: it starts with %.16q", data).At(at)
	}
	if err != nil {
		return nil, err
	}
	if len(f.Kernels) == 0 {
		return nil, diag.Errorf(NoKernel, "a kernel is an .entry in PTX, a __global__ function in the source",
			"there is no kernel in it").At(at)
	}
	if err := f.checkNames(); err != nil {
		return nil, err
	}
	f.Kernels = Merge(f.Kernels)
	return f, nil
}

// maxSame is how often a kernel may be in one file: once per architecture and form.
const maxSame = 200

// checkNames refuses a file that has a kernel too often.
func (f *File) checkNames() error {
	count := map[string]int{}
	for _, m := range f.Kernels {
		if count[m.Kernel]++; count[m.Kernel] > maxSame {
			return diag.Errorf(Limit, "give a file of one build", "kernel %.200q is in it more than %d times", m.Kernel,
				maxSame).At(diag.Pos{File: f.Name})
		}
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// readPTX adds the kernels of a PTX text.
func (f *File) readPTX(text, sum string) error {
	module, err := ptx.Parse(f.Name, text)
	if err != nil {
		return err
	}
	f.Texts[sum] = text
	f.Kernels = append(f.Kernels, ptxMetrics(module, text, sum)...)
	return nil
}

// readBinary adds the kernels of all images. PTX inside counts as PTX.
func (f *File) readBinary(data []byte) error {
	file, err := cubin.Read(f.Name, data)
	if err != nil {
		return err
	}
	for i := range file.Images {
		image := &file.Images[i]
		switch image.Kind {
		case cubin.ELF:
			f.Kernels = append(f.Kernels, cubinMetrics(f.Name, f.Digest, image)...)
		case cubin.PTX:
			text := strings.TrimRight(image.PTX, "\x00")
			if err := f.readPTX(text, digest([]byte(text))); err != nil {
				return fmt.Errorf("PTX for %s in a fatbin: %w", image.Arch, err)
			}
		}
	}
	return nil
}

// compile compiles a source and reads what came out.
func compile(ctx context.Context, path string, source []byte, o Options) (*File, error) {
	tools := o.tools(ctx)
	out, err := tools.Compile(ctx, cudatool.Request{Source: path, Arch: o.Arch, Flags: o.Flags})
	if err != nil {
		return nil, err
	}
	f, err := readOutput(path, FormatPTX, out.PTX, out)
	if err != nil {
		return nil, err
	}
	if out.Cubin != nil {
		machine, err := readOutput(path, FormatCubin, out.Cubin, out)
		if err != nil {
			return nil, err
		}
		if o.Disassemble {
			if err := machine.disassemble(ctx, tools, out.Cubin); err != nil {
				return nil, err
			}
		}
		f.Kernels = Merge(slices.Concat(f.Kernels, machine.Kernels))
		maps.Copy(f.Texts, machine.Texts)
	}
	said := readPtxas(out.Log)
	for i := range f.Kernels {
		f.Kernels[i].fill(said[f.Kernels[i].Kernel])
	}
	f.Format, f.Digest, f.Log = FormatSource, digest(source), out.Log
	for i := range f.Kernels {
		f.Kernels[i].placeIn(path)
	}
	return f, nil
}

// readOutput reads what a compiler made of a source. Records call it by the source's name.
func readOutput(source string, want Format, data []byte, out *cudatool.Output) (*File, error) {
	if got := detectContent(data); got != want {
		return nil, diag.Errorf(UnknownFormat, "try it by hand: "+out.Command, "what %s wrote is no %s",
			out.Compiler.Name, want).At(diag.Pos{File: source})
	}
	f, err := read(source, want, data)
	if err != nil {
		return nil, fmt.Errorf("what %s made of the source: %w", out.Compiler.Name, err)
	}
	return f, nil
}

// placeIn makes all places those of a source: the text that the compiler wrote is gone. Compilers are called beside the
// source, so that relative names are relative to its directory.
func (m *Metrics) placeIn(source string) {
	move := func(p *Place) {
		p.Line = 0
		if p.SourceFile != "" && !filepath.IsAbs(p.SourceFile) {
			p.SourceFile = filepath.Join(filepath.Dir(source), p.SourceFile)
		}
	}
	for i := range m.Sources {
		move(&m.Sources[i].Place)
	}
	for _, c := range []*Code{m.PTXCode, m.SASSCode} {
		if c == nil {
			continue
		}
		for i := range c.Mnemonics {
			mnemonic := &c.Mnemonics[i]
			for j := range mnemonic.Places {
				move(&mnemonic.Places[j])
			}
			mnemonic.Places = slices.DeleteFunc(mnemonic.Places, func(p Place) bool { return p == Place{} })
		}
	}
}

// disassemble adds the instructions of machine code where a program for that is installed. That the program cannot read
// the file is a note of the records: what the file itself says is known all the same.
func (f *File) disassemble(ctx context.Context, tools *cudatool.Tools, data []byte) error {
	text, err := tools.Disassemble(ctx, data)
	switch {
	case diag.CodeOf(err) == cudatool.Missing:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		var functions []sass.Function
		if functions, err = sass.Parse(f.Name, []byte(text)); err == nil {
			listing := File{Name: f.Name, Format: FormatSASS, Kernels: sassMetrics(f.Name, digest([]byte(text)), functions)}
			for i := range listing.Kernels {
				listing.Kernels[i].placeIn(f.Name) // lines of a listing that nobody has
			}
			if err = listing.checkNames(); err == nil {
				f.Kernels, err = Together(f, &listing)
			}
		}
	}
	if err != nil {
		for i := range f.Kernels {
			f.Kernels[i].Notes = append(f.Kernels[i].Notes, "instructions of the machine are not known: "+err.Error())
		}
	}
	return nil
}

// Kernel returns the records of the kernel of that name; with name "" the file must have one kernel only.
func (f *File) Kernel(name string) ([]Metrics, error) {
	var names []string
	var found []Metrics
	for _, m := range f.Kernels {
		if !slices.Contains(names, m.Kernel) {
			names = append(names, m.Kernel)
		}
		if name == "" || m.Kernel == name {
			found = append(found, m)
		}
	}
	list := strings.Join(names[:min(len(names), 10)], ", ")
	at := diag.Pos{File: f.Name}
	switch {
	case name == "" && len(names) > 1:
		return nil, diag.Errorf(NoKernel, "name one (entry): "+list, "the file has %d kernels", len(names)).At(at)
	case len(found) == 0:
		return nil, diag.Errorf(NoKernel, diag.Suggest(name, names, "the file has "+list), "there is no kernel %.200q", name).
			At(at)
	}
	return found, nil
}

// Together merges the kernels of files that were given as one: PTX, cubin and listing of the same code. Files that have
// no kernel in common were not meant to be together. A listing also has functions that are no kernels: those that the
// other files do not know are left out.
func Together(files ...*File) ([]Metrics, error) {
	var all []Metrics
	seen := map[string]int{} // how many files have a kernel of that name
	for _, f := range files {
		all = append(all, f.Kernels...)
		for name := range names(f) {
			seen[name]++
		}
	}
	common := func(n int) bool { return n == len(files) }
	if !slices.ContainsFunc(slices.Collect(maps.Values(seen)), common) {
		var list []string
		for _, f := range files {
			list = append(list, f.Name)
		}
		return nil, diag.Errorf(Mismatch, "give files of the same build", "%s have no kernel in common",
			strings.Join(list, " and "))
	}
	merged := Merge(all)
	if slices.ContainsFunc(files, func(f *File) bool { return f.Format != FormatSASS }) {
		merged = slices.DeleteFunc(merged, func(m Metrics) bool { return m.Kind() == SASS && seen[m.Kernel] == 1 })
	}
	return merged, nil
}

func names(f *File) map[string]bool {
	set := map[string]bool{}
	for _, m := range f.Kernels {
		set[m.Kernel] = true
	}
	return set
}
