package artifact

// This file implements the digest of a kernel's code without what does not matter.

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"

	"gpuemu/internal/ptx"
)

// codeDigest is the SHA-256 of the code of a kernel and the functions it calls. Registers, labels and variables count
// by the order in which they are used, not by name, but for variables that others know by name; debug lines, comments
// and the order of declarations do not count.
func codeDigest(functions []*ptx.Function) string {
	d := &digester{hash: sha256.New(), functions: map[string]int{}, symbols: map[ptx.Pos]int{}}
	for i, f := range functions {
		d.functions[f.Name] = i
	}
	for _, f := range functions {
		d.function(f)
	}
	return hex.EncodeToString(d.hash.Sum(nil))
}

// digester writes code in a normal form: a letter says what follows, and every text ends with a zero byte.
type digester struct {
	hash      hash.Hash
	buf       []byte          // what is written of the current instruction
	functions map[string]int  // by name
	symbols   map[ptx.Pos]int // variables by where they are declared, in the order of first use
}

func (d *digester) text(what byte, text string) {
	d.buf = append(append(append(d.buf, what), text...), 0)
}

func (d *digester) number(what byte, n int) {
	d.buf = append(strconv.AppendInt(append(d.buf, what), int64(n), 16), 0)
}

// flush hands over what was written.
func (d *digester) flush() {
	d.hash.Write(d.buf) // never fails
	d.buf = d.buf[:0]
}

func (d *digester) function(f *ptx.Function) {
	d.text('F', "")
	for _, v := range slices.Concat(f.Returns, f.Params) {
		for _, n := range v.Names {
			d.variable(v, n)
		}
	}
	for _, dir := range f.Directives {
		if dir.Name == "pragma" {
			continue
		}
		d.text('D', dir.Name)
		for _, a := range dir.Args {
			d.text('a', a)
		}
	}
	for _, in := range f.Code {
		d.text('I', in.Op)
		for _, m := range in.Mods {
			d.text('.', m)
		}
		if in.Guard != nil {
			d.buf = append(d.buf, '@')
			d.operand(in.Guard)
		}
		for i := range in.Args {
			d.operand(&in.Args[i])
		}
		d.flush()
	}
}

// variable gives a variable its number, and writes what it is when it is met first.
func (d *digester) variable(v *ptx.Variable, n ptx.Name) {
	if i, known := d.symbols[n.Pos]; known {
		d.number('v', i)
		return
	}
	d.symbols[n.Pos] = len(d.symbols)
	d.number('V', len(d.symbols)-1)
	d.text('s', v.Space)
	d.number('l', v.Align)
	d.text('x', v.Vec)
	d.text('t', v.Type)
	if v.External() { // a host sets it by name, so another name is another variable
		d.text('N', n.Name)
		if slices.Contains(v.Linkage, "extern") { // what it holds is not in this text
			d.buf = append(d.buf, 'e')
		}
	}
	for _, size := range n.Dims {
		d.number('n', size)
	}
	if n.Init != nil {
		d.initial(n.Init)
	}
}

func (d *digester) initial(init *ptx.Init) {
	if !init.IsList() {
		d.operand(&init.Value)
		d.text('m', init.Mask)
		d.flush() // tables may be long
		return
	}
	d.buf = append(d.buf, '{')
	for e := range init.Elements() {
		d.initial(e)
	}
	d.buf = append(d.buf, '}')
}

// operand writes an operand without names.
func (d *digester) operand(o *ptx.Operand) {
	d.buf = append(d.buf, 'O', byte(o.Kind))
	if o.Not {
		d.buf = append(d.buf, '!')
	}
	if o.Generic {
		d.buf = append(d.buf, 'g')
	}
	switch {
	case o.Reg != nil:
		d.number('r', o.Reg.Index)
	case o.Label != nil:
		d.number('L', o.Label.Index)
	case o.Targets != nil:
		for i := range o.Targets.List {
			d.operand(&o.Targets.List[i])
		}
	case o.Func != nil:
		if i, ours := d.functions[o.Func.Name]; ours {
			d.number('f', i)
		} else {
			d.text('f', o.Func.Name)
		}
	case o.Var != nil:
		d.symbol(o)
	case o.Kind == ptx.IntArg || o.Kind == ptx.F32Arg || o.Kind == ptx.F64Arg:
		d.number('i', int(o.Value))
	case o.List == nil:
		d.text('w', o.Text)
	}
	if o.Field != "" {
		d.text(':', o.Field)
	}
	if o.Offset != 0 {
		d.number('+', int(o.Offset))
	}
	if o.List != nil {
		d.buf = append(d.buf, '[')
		for i := range o.List {
			d.operand(&o.List[i])
		}
		d.buf = append(d.buf, ']')
	}
}

// symbol writes a variable that an operand names.
func (d *digester) symbol(o *ptx.Operand) {
	for _, n := range o.Var.Names {
		if n.Name == o.Text {
			d.variable(o.Var, n)
			return
		}
	}
	d.text('w', o.Text) // an element of a numbered list of parameters
}
