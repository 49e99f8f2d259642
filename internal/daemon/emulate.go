// This file implements the execution of compiled kernels on the CPU, one launch a request.

package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/emulation"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
	"gpuemu/internal/wire"
)

const emulateHint = "docs/formats/http.md describes launches"

// residues is how many residues of addresses are told apart: no instruction needs a larger alignment.
const residues = 256

// emulating is one request to execute a launch.
type emulating struct {
	s      *Server
	ctx    context.Context
	header *wire.EmulateHeader
	images []tensor.Named // what came with the request
	memory []byte         // of those
	launch *launchfile.Case
	prog   *ptxvm.Program
	option emulation.Options
	shared *sharedFile // nil: tensors go through the socket
	held   int64
	owners map[string]int // storage: index of the first argument that points into it
	fresh  int64          // bytes of tensors without storage

	refused bool // the kernel is one that is not executed here
}

// emulate handles POST /v1/emulate.
func (s *Server) emulate(w http.ResponseWriter, r *http.Request) error {
	e := &emulating{s: s, ctx: r.Context(), header: new(wire.EmulateHeader), owners: map[string]int{}}
	defer e.close()
	if err := e.read(r); err != nil {
		return err
	}
	if err := e.options(); err != nil {
		return err
	}
	doc, err := e.execute()
	if err != nil {
		return err
	}
	return e.answer(w, doc)
}

// Launch executes a launch of a candidate that this engine runs, as POST /v1/emulate does those of clients.
func (s *Server) Launch(ctx context.Context, header, image []byte) (*emulation.Document, []tensor.Named, error) {
	e := &emulating{s: s, ctx: ctx, header: new(wire.EmulateHeader), owners: map[string]int{}}
	defer e.close()
	err := parseLaunch(header, e.header)
	if err == nil {
		err = e.options()
	}
	if err == nil && len(image) > 0 {
		e.images, _, err = tensor.ParseSafetensors(image)
	}
	if err != nil {
		return nil, nil, err
	}
	doc, err := e.execute()
	if err != nil {
		return nil, nil, err
	}
	return doc, e.outputs(doc), nil
}

func (e *emulating) close() {
	if e.shared != nil {
		e.shared.Close()
	}
	freeImage(e.memory)
	e.s.drop(e.held)
}

func (e *emulating) hold(n int64) error {
	err := e.s.hold(n)
	if err == nil {
		e.held += n
	}
	return err
}

// read reads the header and the image.
func (e *emulating) read(r *http.Request) error {
	body := bufio.NewReaderSize(r.Body, 1<<16)
	text, err := readHeader(body)
	if err == nil && text == nil {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return tooEarly(err)
	}
	h := e.header
	if err := parseLaunch(text, h); err != nil {
		return err
	}
	image, err := readImage(body, e.hold)
	if err != nil {
		return tooEarly(err)
	}
	if h.Shared != "" || h.Bytes != nil {
		at, err := imageSpan(h.Shared, h.Bytes, len(image))
		if err == nil {
			e.shared, err = openShared(e.ctx, h.Shared, true)
		}
		if err == nil {
			err = e.hold(at.end - at.begin)
		}
		if err == nil {
			image, err = e.shared.read(at)
		}
		if err != nil {
			return err
		}
	}
	e.memory = image
	if len(image) > 0 {
		e.images, _, err = tensor.ParseSafetensors(image)
	}
	return err
}

func badLaunch(format string, args ...any) error {
	return diag.Errorf(BadRequest, emulateHint, format, args...)
}

// options checks everything but the arguments.
func (e *emulating) options() error {
	h := e.header
	e.launch = &launchfile.Case{PTX: h.Name, Entry: h.Entry, DynamicShared: h.DynamicShared}
	for _, x := range []struct {
		name string
		list []int
		dst  *[3]int
	}{{"grid", h.Grid, &e.launch.Grid}, {"block", h.Block, &e.launch.Block}} {
		if len(x.list) < 1 || len(x.list) > 3 {
			return badLaunch("%s has %d numbers, want 1 to 3", x.name, len(x.list))
		}
		*x.dst = [3]int{1, 1, 1}
		copy(x.dst[:], x.list)
		if err := launchfile.CheckSize(x.name, *x.dst); err != nil {
			return err
		}
	}
	if err := launchfile.CheckShared(h.DynamicShared); err != nil {
		return err
	}
	switch {
	case (h.PTX == nil) == (h.File == ""):
		return badLaunch("give the module as ptx or as file, one of them")
	case h.Schedules < 0 || h.Schedules > emulation.MaxSchedules:
		return badLaunch("schedules is %d, want 1 to %d", h.Schedules, emulation.MaxSchedules)
	case h.Arch != "" && !cudatool.IsArch(h.Arch):
		return badLaunch("arch is %q, want sm_80, sm_90a and the like", cut(h.Arch, 40))
	case h.SFU != "" && ptxvm.Edges[h.SFU] == ptxvm.Nearest:
		return badLaunch("sfu is %q, want worst+ or worst-", cut(h.SFU, 40))
	case len(h.Args) > launchfile.MaxArgs:
		return badLaunch("there are %d arguments, at most %d are possible", len(h.Args), launchfile.MaxArgs)
	case h.File != "":
		e.launch.PTX = h.File
	case h.Name == "":
		e.launch.PTX = "kernel.ptx"
	}
	e.option = emulation.Options{Schedules: h.Schedules, Budget: h.Budget, Counters: h.Counters, Pool: e.s.engine.Pool}
	var err error
	if h.Memory != "" {
		if e.option.Memory, err = launchfile.ParseMemory(h.Memory); err != nil {
			return err
		}
	}
	if h.Checks != "" {
		e.option.Checks, err = ptxvm.ParseChecks(h.Checks)
	}
	return err
}

// arguments makes the arguments of the launch out of those of the header and the tensors of the image.
func (e *emulating) arguments() error {
	for i := range e.header.Args {
		if err := e.argument(i); err != nil {
			return err
		}
	}
	return nil
}

func (e *emulating) argument(i int) error {
	from := &e.header.Args[i]
	bad := func(format string, args ...any) error {
		return badLaunch("args[%d]: %s", i, fmt.Sprintf(format, args...))
	}
	a := launchfile.Arg{Name: from.Name}
	if a.Name == "" {
		a.Name = fmt.Sprintf("arg%d", i+1)
	}
	var err error
	if from.Kind == "scalar" && from.DType == "" {
		a.DType, err = e.parameterType(i, from.Value)
	} else if a.DType, err = dtype.Parse(from.DType); err != nil {
		err = bad("dtype %q is not known", cut(from.DType, 40))
	}
	if err != nil {
		return err
	}
	switch from.Kind {
	case "scalar":
		if a.Value, err = launchfile.Scalar(a.DType, from.Value); err != nil {
			return fmt.Errorf("args[%d]: %w", i, err)
		}
	case "tensor":
		a.Role = launchfile.Role(from.Role)
		switch {
		case a.Role != launchfile.In && !a.Role.Written():
			return bad("role is %q, want in, out or inout", cut(from.Role, 40))
		case from.Address < 0 || from.Address >= residues:
			return bad("address is %d, want one modulo %d", from.Address, residues)
		case from.Storage != "":
			err = e.stored(i, from, &a, bad)
		default:
			err = e.unfilled(i, from, &a, bad)
		}
	default:
		return bad("kind is %q, want tensor or scalar", cut(from.Kind, 40))
	}
	e.launch.Args = append(e.launch.Args, a)
	return err
}

// parameterType is the dtype of a scalar that does not say: that of its parameter. PTX does not tell numbers with a
// sign from those without, the value does.
func (e *emulating) parameterType(i int, value string) (dtype.DType, error) {
	if i >= len(e.prog.Params) {
		return dtype.Uint64, nil // too many arguments: said when they are counted
	}
	p := e.prog.Params[i]
	sign := "u"
	if strings.HasPrefix(value, "-") {
		sign = ""
	}
	name := fmt.Sprintf("%sint%d", sign, 8*p.Size)
	if strings.HasPrefix(e.prog.Kernel.Params[i].Type, "f") {
		name = fmt.Sprintf("float%d", 8*p.Size)
	}
	d, err := dtype.Parse(name)
	if err != nil {
		err = badLaunch("args[%d]: parameter %s has %d bytes: give the dtype of the scalar", i, p.Name, p.Size)
	}
	return d, err
}

// stored makes a tensor that points into a storage of the image. The first one has the memory.
func (e *emulating) stored(i int, from *wire.EmulateArg, a *launchfile.Arg, bad func(string, ...any) error) error {
	t := e.image(from.Storage)
	switch {
	case t == nil:
		return bad("the image has no tensor %q", cut(from.Storage, 100))
	case len(from.Shape) > 0:
		return bad("a tensor of the image has its own shape: leave shape out")
	case from.Offset < 0 || from.Offset > int64(len(t.Data)):
		return bad("offset is %d, the storage has %d bytes", from.Offset, len(t.Data))
	}
	a.Offset = int(from.Offset)
	owner, known := e.owners[from.Storage]
	if !known {
		e.owners[from.Storage] = i
		a.File, a.Data, a.Residue = from.Storage, t.Data, int(from.Address)
		if a.Data == nil {
			a.Data = []byte{}
		}
		return validParts(from, a, bad)
	}
	first := &e.launch.Args[owner]
	if len(from.Valid) > 0 {
		return bad("the parts of a storage that are valid belong to its first tensor, %s", cut(first.Name, 100))
	}
	if int64(first.Residue) != from.Address {
		return bad("address is %d, that of the same storage before is %d", from.Address, first.Residue)
	}
	if first.Role != a.Role { // some of it is read, some written
		first.Role = launchfile.InOut
	}
	a.Of = owner + 1
	return nil
}

// validParts are the parts of a storage that may be accessed.
func validParts(from *wire.EmulateArg, a *launchfile.Arg, bad func(string, ...any) error) error {
	if len(from.Valid) > launchfile.MaxParts {
		return bad("valid has %d parts, at most %d are possible", len(from.Valid), launchfile.MaxParts)
	}
	elems := int64(len(a.Data) / a.DType.Size())
	for i, part := range from.Valid {
		if len(part) != 2 || part[0] < 0 || part[1] < 0 || part[0] > elems || part[1] > elems-part[0] {
			return bad("part %d of valid is %d, want [first, count] in the %d elements of the storage", i, part, elems)
		}
		a.Valid = append(a.Valid, [2]int{int(part[0]), int(part[1])})
	}
	return nil
}

// unfilled makes a tensor with nothing in it.
func (e *emulating) unfilled(i int, from *wire.EmulateArg, a *launchfile.Arg, bad func(string, ...any) error) error {
	if from.Shape == nil {
		return bad("a tensor has a storage or, with nothing in its memory, a shape")
	}
	if e.image(a.Name) != nil {
		return bad("a tensor without storage is called %q, as one of the image", cut(a.Name, 100))
	}
	for j := range i {
		if b := &e.header.Args[j]; b.Kind == "tensor" && b.Storage == "" && e.launch.Args[j].Name == a.Name {
			return bad("a tensor before is called %q, too", cut(a.Name, 100))
		}
	}
	if from.Offset != 0 || len(from.Valid) > 0 {
		return bad("a tensor without storage has no offset, and no parts that are valid")
	}
	var err error
	if a.Shape, err = tensor.ParseShape(from.Shape); err == nil {
		err = a.Shape.CheckBytes(a.DType)
	}
	if err != nil {
		return fmt.Errorf("args[%d]: %w", i, err)
	}
	size := int64(a.Shape.Elems() * a.DType.Size())
	if e.fresh += size; e.fresh > launchfile.MaxMemory {
		return diag.Errorf(TooLarge, "use smaller shapes", "the tensors up to %s need %d bytes, at most %d are possible",
			cut(a.Name, 100), e.fresh, int64(launchfile.MaxMemory))
	}
	if err := e.hold(size); err != nil {
		return err
	}
	a.Fill()
	a.Residue = int(from.Address)
	return nil
}

// image is the tensor of that name in the image; nil if there is none.
func (e *emulating) image(name string) *tensor.Tensor {
	for i := range e.images {
		if e.images[i].Name == name {
			return e.images[i].Tensor
		}
	}
	return nil
}

// execute runs the launch. A kernel that is not executed here is an answer, not an error.
func (e *emulating) execute() (*emulation.Document, error) {
	err := e.load()
	if err == nil {
		e.launch.Entry = e.prog.Kernel.Name
		err = e.arguments()
	}
	switch {
	case e.refused:
		return emulation.Refused(e.launch, err), nil
	case err != nil:
		return nil, err
	}
	select { // as many launches at once as there are processors: each has its memory and its workers
	case e.s.machines <- struct{}{}:
		defer func() { <-e.s.machines }()
	case <-e.ctx.Done():
		return nil, e.ctx.Err()
	}
	doc, err := emulation.Run(e.ctx, e.prog, e.launch, e.option)
	switch {
	case err != nil && e.ctx.Err() != nil:
		return nil, e.ctx.Err()
	case emulation.IsRefusal(err):
		return emulation.Refused(e.launch, err), nil
	case err != nil:
		return nil, err
	}
	doc.Conclude()
	return doc, nil
}

// load makes the program of the module. A kernel that is not executed here leaves refused behind.
func (e *emulating) load() (err error) {
	h := e.header
	numerics := ptxvm.Numerics{Approx: ptxvm.Edges[h.SFU], Contract: h.Contract}
	ready := func(file *ptx.File) (*ptxvm.Program, error) {
		prog, err := emulation.LoadWith(file, e.launch.Entry, h.Arch, numerics, 0)
		e.refused = emulation.IsRefusal(err)
		return prog, err
	}
	if h.PTX != nil {
		e.prog, err = e.s.kernels.load(programKey{e.launch.PTX, *h.PTX, e.launch.Entry, h.Arch, numerics}, ready)
		return err
	}
	file, err := e.moduleFile()
	if err == nil {
		e.prog, err = ready(file)
	}
	return err
}

// moduleFile reads the module from its file.
func (e *emulating) moduleFile() (*ptx.File, error) {
	h := e.header
	switch {
	case e.ctx.Value(remoteKey{}) != nil:
		return nil, badLaunch("a file cannot be named over TCP: send its text as ptx")
	case !filepath.IsAbs(h.File):
		return nil, badLaunch("file is %q, want an absolute path", cut(h.File, 200))
	}
	file, err := ptx.ReadFile(h.File)
	if err != nil && diag.CodeOf(err) == "" {
		err = badLaunch("%v", err)
	}
	return file, err
}

// answer sends the document and what the kernel wrote.
func (e *emulating) answer(w http.ResponseWriter, doc *emulation.Document) error {
	text, err := marshal(doc)
	if err != nil {
		return err
	}
	reply := &wire.EmulateReply{Emulation: text}
	outputs := e.outputs(doc)
	if e.shared != nil && len(outputs) > 0 {
		to := &offsetWriter{e.shared, 0}
		if err := tensor.WriteSafetensors(to, outputs, nil); err != nil {
			return e.shared.fault("write", err)
		}
		reply.Bytes, outputs = []int64{0, to.at}, nil
	}
	head, _, err := partHead(reply, outputs)
	if err != nil {
		return err
	}
	if len(outputs) == 0 {
		binary.LittleEndian.PutUint64(head[len(head)-8:], 0) // not even an image without tensors
	}
	w.Header().Set("Content-Type", emulationType)
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 1<<16)
	_, err = out.Write(head)
	if err == nil && len(outputs) > 0 {
		err = tensor.WriteSafetensors(out, outputs, nil)
	}
	if err == nil {
		err = out.Flush()
	}
	return err
}

// outputs are the storages that the kernel wrote to, of those it was allowed to, and the tensors without storage.
func (e *emulating) outputs(doc *emulation.Document) (list []tensor.Named) {
	if doc.Error != nil {
		return nil
	}
	for i := range e.launch.Args {
		a := &e.launch.Args[i]
		switch storage := e.header.Args[i].Storage; {
		case !a.Role.Written() || a.Of > 0:
		case storage != "" && !doc.Written[i]:
		case storage != "":
			list = append(list, tensor.Named{Name: storage, Tensor: e.image(storage)})
		default:
			list = append(list, tensor.Named{Name: a.Name, Tensor: a.Tensor()})
		}
	}
	return list
}
