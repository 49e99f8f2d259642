package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
)

// This file implements the launch that the flags of emulate describe.

// read makes a launch of the flags.
func (f *emulateFlags) read() (*launchfile.Case, error) {
	c := &launchfile.Case{PTX: f.ptx, Entry: f.entry, DynamicShared: f.shared}
	if f.ptx == "" {
		return nil, diag.Errorf(Usage, "give FILE.ptx or --case FILE.json", "there is no kernel to run")
	}
	for _, s := range []struct {
		name, text string
		dst        *[3]int
	}{{"grid", f.grid, &c.Grid}, {"block", f.block, &c.Block}} {
		size, err := parseSize(s.name, s.text)
		if err != nil {
			return nil, err
		}
		*s.dst = size
	}
	if err := launchfile.CheckShared(f.shared); err != nil {
		return nil, inFlag("shared", err)
	}
	total, room := 0, f.memoryLimit()
	for i, text := range f.args {
		a, err := f.parseArg(i, text, room)
		if err != nil {
			return nil, fmt.Errorf("--arg %s: %w", text, err)
		}
		if a.IsTensor() && c.Arg(a.Name) != nil {
			return nil, diag.Errorf(Usage, "give each its own", "--arg %s: a tensor before is called %s, too", text, a.Name)
		}
		room -= f.needs(a.Role, int64(len(a.Data)))
		if total += len(a.Data); total > launchfile.MaxMemory {
			return nil, diag.Errorf(Usage, "use smaller shapes", "the tensors up to %s need %d bytes, at most %d are possible",
				a.Name, total, launchfile.MaxMemory)
		}
		c.Args = append(c.Args, *a)
	}
	return c, nil
}

// memoryLimit is the memory that a launch may take, in bytes.
func (f *emulateFlags) memoryLimit() int64 {
	if n, err := launchfile.ParseMemory(f.memory); err == nil {
		return n
	}
	return ptxvm.UsualMemory
}

// needs is the memory that a tensor takes: one that is written is copied where races are looked for.
func (f *emulateFlags) needs(role launchfile.Role, size int64) int64 {
	if checks, err := ptxvm.ParseChecks(f.check); err == nil && role.Written() && checks&ptxvm.CheckRace != 0 {
		return 2 * size
	}
	return size
}

// afford sees that there is memory for a tensor before it is made.
func (f *emulateFlags) afford(a *launchfile.Arg, room int64) error {
	size := int64(a.Shape.Elems()) * int64(a.DType.Size())
	if need := f.needs(a.Role, size); need > room {
		total := f.memoryLimit() - room + need
		return command.NotRun(diag.Errorf(ptxvm.MemoryLimit, ptxvm.MemoryHint(total),
			"the tensors up to %s need at least %d bytes of memory; the limit is %d", a.Name, total, f.memoryLimit()))
	}
	return nil
}

// parseSize reads X,Y,Z; what is left out is 1.
func parseSize(flag, text string) ([3]int, error) {
	size := [3]int{1, 1, 1}
	if text == "" {
		return size, diag.Errorf(Usage, "give --"+flag+" X,Y,Z", "--%s is missing", flag)
	}
	words := strings.Split(text, ",")
	if len(words) > 3 {
		return size, diag.Errorf(Usage, "give X,Y,Z", "--%s has %d numbers", flag, len(words))
	}
	for i, word := range words {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return size, diag.Errorf(Usage, "give X,Y,Z", "--%s: %q is not a number", flag, word)
		}
		size[i] = n
	}
	if err := launchfile.CheckSize(flag, size); err != nil {
		return size, inFlag(flag, err)
	}
	return size, nil
}

// described is a tensor without a file: dtype, shape, and how it is filled.
var described = regexp.MustCompile(`^([a-z][a-z0-9_]*)\[([0-9, ]*)\](?::([a-z_]+)(?::([0-9a-fA-Fx]+))?)?$`)

// argName is a name in front of an argument. Paths with an equals sign have something else in front of it.
var argName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.]*)=(.*)$`)

// parseArg reads argument i: [NAME=]DTYPE:VALUE, or [NAME=]ROLE: and a file or a description. There are room bytes of
// memory for it.
func (f *emulateFlags) parseArg(i int, text string, room int64) (*launchfile.Arg, error) {
	a := &launchfile.Arg{Name: fmt.Sprintf("arg%d", i+1)}
	spec, named := text, false
	if m := argName.FindStringSubmatch(text); m != nil {
		a.Name, spec, named = m[1], m[2], true
	}
	head, rest, ok := strings.Cut(spec, ":")
	if !ok || rest == "" {
		return nil, diag.Errorf(Usage, "a scalar is i32:1024, a tensor in:FILE, in:f32[4]:normal:7 or out:f32[4]",
			"it has no value")
	}
	role := launchfile.Role(head)
	if role != launchfile.In && !role.Written() {
		var err error
		if a.DType, err = dtype.Parse(head); err != nil {
			return nil, diag.Errorf(Usage, "a tensor begins with in:, out: or inout:, a scalar with its dtype",
				"%q is neither a role nor a dtype", head)
		}
		a.Value, err = launchfile.Scalar(a.DType, rest)
		return a, err
	}
	a.Role = role
	parts := ""
	if m := validParts.FindStringSubmatch(rest); m != nil {
		rest, parts = m[1], m[2]
	}
	var err error
	if m := described.FindStringSubmatch(rest); m == nil {
		err = loadTensor(a, rest, named)
	} else {
		err = describeTensor(a, m[1], m[2])
		if err == nil {
			err = f.afford(a, room)
		}
		if err == nil {
			err = makeTensor(a, m[3], m[4])
		}
	}
	if err == nil && parts != "" {
		err = setValid(a, parts)
	}
	return a, err
}

// validParts are behind a tensor of which a kernel may access some elements alone: @0+12,16+12.
var validParts = regexp.MustCompile(`^(.*)@([0-9]+\+[0-9]+(?:,[0-9]+\+[0-9]+)*)$`)

// setValid reads the parts of a tensor that a kernel may access, each a first element and a count.
func setValid(a *launchfile.Arg, text string) error {
	for part := range strings.SplitSeq(text, ",") {
		first, count, _ := strings.Cut(part, "+")
		from, err := strconv.Atoi(first)
		if err != nil {
			return diag.Errorf(Usage, "", "%q is not the number of an element", first)
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			return diag.Errorf(Usage, "", "%q is not a number of elements", count)
		}
		if elems := a.Shape.Elems(); from > elems || n > elems-from {
			return diag.Errorf(Usage, "write FIRST+COUNT, in elements of the row-major order",
				"valid part %s does not lie in the %d elements", part, elems)
		}
		a.Valid = append(a.Valid, [2]int{from, n})
	}
	return nil
}

// describeTensor reads the dtype and the shape of a tensor.
func describeTensor(a *launchfile.Arg, typ, dims string) error {
	var err error
	if a.DType, err = dtype.Parse(typ); err != nil {
		return inArg(err)
	}
	var sizes []int
	for word := range strings.FieldsFuncSeq(dims, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return diag.Errorf(Usage, "", "%q is not a size", word)
		}
		sizes = append(sizes, n)
	}
	if a.Shape, err = tensor.ParseShape(sizes); err != nil {
		return err
	}
	return a.Shape.CheckBytes(a.DType)
}

// makeTensor fills a tensor by its description.
func makeTensor(a *launchfile.Arg, values, seedText string) error {
	s := seed(1)
	if seedText != "" {
		if err := s.Set(seedText); err != nil {
			return inArg(err)
		}
	}
	switch {
	case values == "" && a.Role != launchfile.Out:
		return diag.Errorf(Usage, "say what is in it, such as :normal:7 or :zeros", "what the kernel reads needs values")
	case values == "":
		a.Fill()
		return nil
	case a.Role == launchfile.Out:
		return diag.Errorf(Usage, "use inout, or leave the values out", "an output has no values before the kernel runs")
	}
	a.File = values // known values, as those of a file
	if values == "zeros" {
		a.Data = make([]byte, a.Shape.Elems()*a.DType.Size())
		return nil
	}
	var err error
	a.Data, err = drawn(a.Name, a.DType, a.Shape, values, uint64(s))
	return err
}

// inArg gives an error of an argument a code where it has none.
func inArg(err error) error {
	if diag.CodeOf(err) == "" {
		return diag.Errorf(Usage, diag.HintOf(err), "%w", err)
	}
	return err
}

// drawn makes values by the generator of cases: an operator with one input of that shape. The name is part of the
// stream, so two tensors of one seed differ.
func drawn(name string, d dtype.DType, shape tensor.Shape, values string, s uint64) ([]byte, error) {
	schema := &opspec.Schema{Name: "emulate", DTypes: []dtype.DType{d}, Inputs: []opspec.Input{{Name: name}}}
	fixed := map[string][]int{}
	for i, n := range shape {
		dim := fmt.Sprintf("d%d", i)
		schema.Dims = append(schema.Dims, opspec.Dim{Name: dim, Candidates: []int{max(n, 1)}, Empty: n == 0})
		schema.Inputs[0].Dims = append(schema.Inputs[0].Dims, dim)
		fixed[dim] = []int{n}
	}
	schema.Outputs = []opspec.Output{{Name: "output", Dims: schema.Inputs[0].Dims}}
	stream, err := gen.Cases(schema, gen.Strategy{Values: values, DTypes: schema.DTypes, Dims: fixed,
		Layouts: []tensor.Layout{tensor.Contiguous}, MaxElems: tensor.MaxElems}, s)
	if err != nil {
		return nil, err
	}
	c, err := stream.Case(0)
	if err != nil {
		return nil, err
	}
	inputs, err := stream.Inputs(c)
	if err != nil {
		return nil, err
	}
	return inputs[name].Bytes(), nil
}

// loadTensor reads a tensor of a file: FILE.npy, FILE.safetensors, or one of several tensors as FILE.safetensors#NAME.
func loadTensor(a *launchfile.Arg, path string, named bool) error {
	path, member, chosen := strings.Cut(path, "#")
	if !chosen && named {
		member = a.Name
	}
	var file *tensor.File
	var err error
	switch filepath.Ext(path) {
	case ".npy":
		file, err = tensor.OpenNPY(path)
	case ".safetensors":
		file, err = tensor.OpenSafetensors(path)
	default:
		return diag.Errorf(Usage, "a tensor is a .npy or .safetensors file, or a description such as f32[4,16]:normal:7",
			"%q is neither a file of tensors nor a description of one", path)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	t, ok := file.Lookup(member)
	if !ok && !chosen && len(file.Tensors) == 1 {
		t, ok = file.Tensors[0].Tensor, true
	}
	if !ok {
		var names []string
		for _, n := range file.Tensors {
			names = append(names, n.Name)
		}
		return diag.Errorf(BadInput, fmt.Sprintf("it has %q; name one as %s#NAME", names, path), "%s has no tensor %q", path,
			member)
	}
	a.DType, a.Shape, a.File = t.DType, t.Shape, path
	a.Data = append(make([]byte, 0, len(t.Bytes())), t.Bytes()...) // the kernel may change it, and the file is closed
	return nil
}
