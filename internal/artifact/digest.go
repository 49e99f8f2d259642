package artifact

// This file implements the digest of a kernel's code without what does not matter.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"

	"gpuemu/internal/ptx"
)

// codeDigest is the SHA-256 of a kernel's code and of the functions it calls. Registers, labels and variables count by
// the order in which they are used, not by name; debug lines, comments and the order of declarations do not count.
func codeDigest(file *ptx.File, fn *ptx.Function) string {
	m := &module{File: file}
	d := &digester{hash: sha256.New(), functions: map[string]int{}, symbols: map[ptx.Pos]int{}}
	functions := m.reach(fn)
	for i, f := range functions {
		d.functions[f.Name] = i
	}
	for _, f := range functions {
		d.function(f)
	}
	return hex.EncodeToString(d.hash.Sum(nil))
}

// digester writes code in a normal form.
type digester struct {
	hash      hash.Hash
	functions map[string]int  // by name
	symbols   map[ptx.Pos]int // variables by where they are declared, in the order of first use
}

func (d *digester) printf(format string, args ...any) { fmt.Fprintf(d.hash, format, args...) }

func (d *digester) function(f *ptx.Function) {
	d.printf("function %t\n", f.Entry)
	for _, v := range slices.Concat(f.Returns, f.Params) {
		for _, n := range v.Names {
			d.variable(v, n)
		}
	}
	for _, dir := range f.Directives {
		if dir.Name != "pragma" {
			d.printf("%s %q\n", dir.Name, dir.Args)
		}
	}
	for _, in := range f.Code {
		d.printf("%s", in.Mnemonic())
		if in.Guard != nil {
			d.printf(" @")
			d.operand(in.Guard)
		}
		for i := range in.Args {
			d.operand(&in.Args[i])
		}
		d.printf("\n")
	}
}

// variable gives a variable its number, and writes what it is when it is met first.
func (d *digester) variable(v *ptx.Variable, n ptx.Name) {
	if i, known := d.symbols[n.Pos]; known {
		d.printf(" v%d", i)
		return
	}
	d.symbols[n.Pos] = len(d.symbols)
	d.printf(" v%d(%s %d %s %s %v", len(d.symbols)-1, v.Space, v.Align, v.Vec, v.Type, n.Dims)
	if n.Init != nil {
		d.initial(n.Init)
	}
	d.printf(")")
}

func (d *digester) initial(init *ptx.Init) {
	if init.List == nil {
		d.operand(&init.Value)
		d.printf(" %s", init.Mask)
		return
	}
	d.printf("{")
	for i := range init.List {
		d.initial(&init.List[i])
	}
	d.printf("}")
}

// operand writes an operand without names.
func (d *digester) operand(o *ptx.Operand) {
	d.printf(" %d%t%t", o.Kind, o.Not, o.Generic)
	switch {
	case o.Reg != nil:
		d.printf("r%d", o.Reg.Index)
	case o.Label != nil:
		d.printf("l%d", o.Label.Index)
	case o.Targets != nil:
		for i := range o.Targets.List {
			d.operand(&o.Targets.List[i])
		}
	case o.Func != nil:
		if i, ours := d.functions[o.Func.Name]; ours {
			d.printf("f%d", i)
		} else {
			d.printf("%s", o.Func.Name)
		}
	case o.Var != nil:
		d.symbol(o)
	case o.Kind == ptx.IntArg || o.Kind == ptx.F32Arg || o.Kind == ptx.F64Arg:
		d.printf("%#x", o.Value)
	case o.List == nil:
		d.printf("%s", o.Text)
	}
	d.printf(".%s+%d[", o.Field, o.Offset)
	for i := range o.List {
		d.operand(&o.List[i])
	}
	d.printf("]")
}

// symbol writes a variable that an operand names.
func (d *digester) symbol(o *ptx.Operand) {
	for _, n := range o.Var.Names {
		if n.Name == o.Text {
			d.variable(o.Var, n)
			return
		}
	}
	d.printf("%s", o.Text) // an element of a numbered list of parameters
}
