package launchfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// This file implements the text of launch files.

// Parse reads the text of a launch file. It reads no other file.
func Parse(file string, text []byte) (*Case, error) {
	if !json.Valid(text) {
		return nil, syntaxError(file, text)
	}
	o, err := newObject(file, "", text, value{text, 0}, fileKeys)
	if err != nil {
		return nil, err
	}
	c := &Case{PTX: "kernel.ptx"}
	var memory json.RawMessage
	for _, f := range []struct {
		key string
		dst any
	}{{"ptx", &c.PTX}, {"entry", &c.Entry}, {"dynamic_shared", &c.DynamicShared},
		{"memory", &memory}} {
		if _, err := o.get(f.key, f.dst); err != nil {
			return nil, err
		}
	}
	args, err := o.list("args")
	if err == nil {
		c.Grid, err = o.size("grid")
	}
	if err == nil {
		c.Block, err = o.size("block")
	}
	switch {
	case err != nil:
		return nil, err
	case c.PTX == "":
		return nil, o.fault(BadKey, "ptx", "leave it out for kernel.ptx", "is empty")
	case len(args) > MaxArgs:
		return nil, o.fault(BadKey, "args", "", "has more than %d arguments", MaxArgs)
	}
	if err := CheckShared(c.DynamicShared); err != nil {
		return nil, inFile(file, err)
	}
	if memory != nil { // "6GiB", or a number of bytes
		if c.Memory, err = ParseMemory(strings.Trim(string(memory), `"`)); err != nil {
			return nil, fmt.Errorf("%s: memory: %w", file, err)
		}
	}
	for i, v := range args {
		a, err := newObject(file, fmt.Sprintf("args[%d]", i), text, v, argKeys)
		if err == nil {
			err = c.addArg(a, i)
		}
		if err != nil {
			return nil, err
		}
	}
	expected, err := o.list("expected")
	if err != nil {
		return nil, err
	}
	for i, v := range expected {
		e, err := newObject(file, fmt.Sprintf("expected[%d]", i), text, v, wantKeys)
		if err == nil {
			err = c.addExpected(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, c.checkMemory(file)
}

// checkMemory reports tensors that together need more memory than there may be.
func (c *Case) checkMemory(file string) error {
	total := 0
	for i := range c.Args {
		total += c.Args[i].Shape.Elems() * c.Args[i].DType.Size()
		if c.Args[i].IsTensor() && total > MaxMemory {
			return diag.Errorf(BadSize, "use smaller shapes", "the tensors up to %s need %d bytes, at most %d are possible",
				c.Args[i].Name, total, MaxMemory).At(diag.Pos{File: file})
		}
	}
	return nil
}

// inFile puts the launch file in front of the message of err.
func inFile(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// word is a string that must be there.
func (o *object) word(key string) (string, error) {
	var s string
	there, err := o.get(key, &s)
	if err == nil && (!there || s == "") {
		err = o.fault(BadKey, key, "", "is missing")
	}
	return s, err
}

// size is a grid or a block: up to three numbers, those behind the last are 1.
func (o *object) size(key string) ([3]int, error) {
	size := [3]int{1, 1, 1}
	var list []int64
	there, err := o.get(key, &list)
	switch {
	case err != nil:
		return size, err
	case !there:
		return size, o.fault(BadKey, key, "write [x, y, z]", "is missing")
	case len(list) < 1 || len(list) > 3:
		return size, o.fault(BadKey, key, "write [x, y, z]", "has %d numbers", len(list))
	}
	for i, n := range list {
		size[i] = int(n)
	}
	return size, inFile(o.file, CheckSize(key, size))
}

// dtype is the number format of an argument.
func (o *object) dtype() (dtype.DType, error) {
	name, err := o.word("dtype")
	if err != nil {
		return 0, err
	}
	d, err := dtype.Parse(name)
	if err != nil {
		return 0, o.fault(BadKey, "dtype", diag.HintOf(err), "is %q, which is none", name)
	}
	return d, nil
}

// dataFile is the path of a data file; "" where there is none.
func (o *object) dataFile() (string, error) {
	var file string
	if _, err := o.get("file", &file); err != nil || file == "" {
		return "", err
	}
	if !filepath.IsLocal(file) {
		return "", o.fault(BadPath, "file", "put the file beside the launch file", "is %q: data files lie beside the launch "+
			"file or below", file)
	}
	return file, nil
}

func (c *Case) addArg(o *object, i int) error {
	a := Arg{Name: fmt.Sprintf("arg%d", i+1)}
	if _, err := o.get("name", &a.Name); err != nil {
		return err
	}
	kind, err := o.word("kind")
	if err != nil {
		return err
	}
	if a.DType, err = o.dtype(); err != nil {
		return err
	}
	switch kind {
	case "scalar":
		err = o.scalar(&a)
	case "tensor":
		if c.Arg(a.Name) != nil {
			return o.fault(BadKey, "name", "", "is %q, as that of a tensor before", a.Name)
		}
		err = o.tensor(&a)
	default:
		return o.fault(BadKey, "kind", "use tensor or scalar", "is %q", kind)
	}
	c.Args = append(c.Args, a)
	return err
}

func (o *object) tensor(a *Arg) error {
	var dims []int64
	there, err := o.get("shape", &dims)
	switch {
	case err != nil:
		return err
	case !there:
		return o.fault(BadKey, "shape", "", "is missing")
	}
	if a.Shape, err = tensor.ParseShape(dims); err == nil {
		err = a.Shape.CheckBytes(a.DType)
	}
	if err != nil {
		return inFile(o.file, fmt.Errorf("%s.shape: %w", o.path, err))
	}
	role, err := o.word("role")
	if err != nil {
		return err
	}
	if a.Role = Role(role); a.Role != In && !a.Role.Written() {
		return o.fault(BadKey, "role", "use in, out or inout", "is %q", role)
	}
	if a.File, err = o.dataFile(); err != nil {
		return err
	}
	return o.valid(a)
}

// valid reads the parts of a tensor that a kernel may access: tensors with rows of padding, or parts of larger ones.
func (o *object) valid(a *Arg) error {
	var list [][]int
	if _, err := o.get("valid", &list); err != nil {
		return err
	}
	if len(list) > MaxParts {
		return o.fault(BadKey, "valid", "", "has more than %d parts", MaxParts)
	}
	elems := a.Shape.Elems()
	for i, part := range list {
		if len(part) != 2 {
			return o.fault(BadKey, "valid", "write [[first, count], ...], in elements", "has %d numbers in part %d", len(part),
				i)
		}
		if part[0] < 0 || part[1] < 0 || part[0] > elems || part[1] > elems-part[0] {
			return o.fault(BadKey, "valid", "", "has part %d from %d with %d elements, the tensor has %d", i, part[0], part[1],
				elems)
		}
		a.Valid = append(a.Valid, [2]int(part))
	}
	return nil
}

// scalar reads a value: a number, true, false, or a string for what JSON has no number for.
func (o *object) scalar(a *Arg) error {
	text := strings.TrimSpace(string(o.members["value"].raw))
	if strings.HasPrefix(text, `"`) {
		if _, err := o.get("value", &text); err != nil {
			return err
		}
	}
	if text == "" || text == "null" {
		return o.fault(BadKey, "value", "", "is missing")
	}
	var err error
	if a.Value, err = Scalar(a.DType, text); err != nil {
		return inFile(o.file, fmt.Errorf("%s.value: %w", o.path, err))
	}
	return nil
}

// Scalar is the little-endian bytes of a number of a dtype. Integers are written in full, in decimal or hexadecimal;
// floats are rounded to nearest; bool is true, false, 1 or 0.
func Scalar(d dtype.DType, text string) ([]byte, error) {
	bits, err := scalarBits(d, text)
	if err != nil {
		hint := ""
		if errors.Is(err, strconv.ErrRange) {
			hint = "its range is exceeded"
		}
		return nil, diag.Errorf(BadScalar, hint, "%q is not a value of %s", text, d)
	}
	b := make([]byte, d.Size())
	d.Store(b, bits)
	return b, nil
}

func scalarBits(d dtype.DType, text string) (uint64, error) {
	switch {
	case d == dtype.Bool:
		switch strings.ToLower(text) {
		case "true", "1":
			return 1, nil
		case "false", "0":
			return 0, nil
		}
		return 0, strconv.ErrSyntax
	case d == dtype.Float32: // read at once: by way of float64 it would be rounded twice
		x, err := strconv.ParseFloat(text, 32)
		return uint64(math.Float32bits(float32(x))), finite(err)
	case d.IsFloat():
		x, err := strconv.ParseFloat(text, 64)
		return d.Bits(x), finite(err)
	}
	digits, base := text, 10
	sign, rest := "", text
	if strings.HasPrefix(text, "-") {
		sign, rest = "-", text[1:]
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(rest), "0x"); ok {
		digits, base = sign+hex, 16
	}
	if d.IsSigned() {
		n, err := strconv.ParseInt(digits, base, 8*d.Size())
		return uint64(n), err
	}
	return strconv.ParseUint(digits, base, 8*d.Size())
}

// finite lets numbers pass that are too large for a float: they are its infinity, as everywhere else.
func finite(err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return nil
	}
	return err
}
