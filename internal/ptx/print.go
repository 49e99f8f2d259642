package ptx

import (
	"strconv"
	"strings"
)

// This file implements printing.

// String prints the module. Parsing what it returns gives the same tree, positions aside.
func (f *File) String() string {
	w := &printer{}
	w.buf = append(w.buf, ".version "+f.Version+"\n.target "+strings.Join(f.Targets, ", ")+"\n"...)
	if f.AddressSize != 0 {
		w.add(".address_size ", strconv.Itoa(f.AddressSize), "\n")
	}
	for _, item := range f.Items {
		if _, ok := item.(*Function); ok {
			w.add("\n")
		}
		w.stmt(item, "")
	}
	return string(w.buf)
}

// String prints the instruction as it would stand in a file.
func (in *Instr) String() string {
	w := &printer{}
	w.instr(in)
	return string(w.buf)
}

// String prints the operand as it would stand in an instruction.
func (o *Operand) String() string {
	w := &printer{}
	w.operand(o)
	return string(w.buf)
}

type printer struct{ buf []byte }

func (w *printer) add(texts ...string) {
	for _, t := range texts {
		w.buf = append(w.buf, t...)
	}
}

func (w *printer) int(n int) { w.buf = strconv.AppendInt(w.buf, int64(n), 10) }

func (w *printer) stmt(s Stmt, indent string) {
	w.add(indent)
	switch x := s.(type) {
	case *Variable:
		w.variable(x)
		w.add(";")
	case *Function:
		w.function(x)
	case *Instr:
		w.instr(x)
	case *Label:
		w.buf = w.buf[:len(w.buf)-len(indent)]
		w.add(x.Name, ":")
	case *Block:
		w.block(x, indent)
	case *Loc:
		w.loc(x)
	case *Directive:
		w.directive(x)
		w.add(";")
	case *Targets:
		w.targets(x)
	case *Prototype:
		w.prototype(x)
	case *Section:
		w.add(".section ", x.Name, " {\n", x.Text, "\n}")
	case *FileName:
		w.add(".file ", strconv.Itoa(x.Number), " \"", x.Path, "\"")
		if x.Stamp != "" {
			w.add(", ", x.Stamp)
		}
	case *DebugLine:
		w.add(x.Text)
	}
	w.add("\n")
}

func (w *printer) block(b *Block, indent string) {
	w.add("{\n")
	for _, s := range b.Stmts {
		w.stmt(s, indent+"\t")
	}
	w.add(indent, "}")
}

func (w *printer) linkage(list []string) {
	for _, l := range list {
		w.add(".", l, " ")
	}
}

func (w *printer) function(fn *Function) {
	w.linkage(fn.Linkage)
	if fn.Entry {
		w.add(".entry ")
	} else {
		w.add(".func ")
	}
	if fn.Attributes != "" {
		w.add(".attribute(", fn.Attributes, ") ")
	}
	if fn.Returns != nil {
		w.params(fn.Returns)
		w.add(" ")
	}
	w.add(fn.Name)
	if fn.Params != nil {
		w.params(fn.Params)
	}
	for _, d := range fn.Directives {
		w.add("\n")
		w.directive(d)
		if d.Name == "pragma" {
			w.add(";")
		}
	}
	if fn.Body == nil {
		w.add(";")
		return
	}
	w.add("\n")
	w.block(fn.Body, "")
}

func (w *printer) params(list []*Variable) {
	w.add("(")
	for i, v := range list {
		if i > 0 {
			w.add(", ")
		}
		w.variable(v)
	}
	w.add(")")
}

func (w *printer) variable(v *Variable) {
	w.linkage(v.Linkage)
	w.add(".", v.Space)
	if v.Attributes != "" {
		w.add(" .attribute(", v.Attributes, ")")
	}
	if v.Align != 0 {
		w.add(" .align ")
		w.int(v.Align)
	}
	if v.Vec != "" {
		w.add(" .", v.Vec)
	}
	w.add(" .", v.Type)
	if v.Ptr != nil {
		w.add(" .ptr")
		if v.Ptr.Space != "" {
			w.add(" .", v.Ptr.Space)
		}
		if v.Ptr.Align != 0 {
			w.add(" .align ")
			w.int(v.Ptr.Align)
		}
	}
	for i := range v.Names {
		if i > 0 {
			w.add(",")
		}
		w.add(" ")
		w.name(&v.Names[i])
	}
}

func (w *printer) name(n *Name) {
	w.add(n.Name)
	if n.Count > 0 {
		w.add("<")
		w.int(n.Count)
		w.add(">")
	}
	for _, d := range n.Dims {
		w.add("[")
		if d >= 0 {
			w.int(d)
		}
		w.add("]")
	}
	if n.Init != nil {
		w.add(" = ")
		w.init(n.Init)
	}
}

func (w *printer) init(in *Init) {
	if in.IsList() {
		w.add("{")
		first := true
		for e := range in.Elements() {
			if !first {
				w.add(", ")
			}
			first = false
			w.init(e)
		}
		w.add("}")
		return
	}
	if in.Mask != "" {
		w.add(in.Mask, "(")
	}
	w.operand(&in.Value)
	if in.Mask != "" {
		w.add(")")
	}
}

func (w *printer) instr(in *Instr) {
	if in.Guard != nil {
		w.add("@")
		w.operand(in.Guard)
		w.add(" ")
	}
	w.add(in.Op)
	for _, m := range in.Mods {
		w.add(".", m)
	}
	for i := range in.Args {
		if i > 0 {
			w.add(",")
		}
		w.add(" ")
		w.operand(&in.Args[i])
	}
	w.add(";")
}

var brackets = [...][2]string{VectorArg: {"{", "}"}, AddressArg: {"[", "]"}, GroupArg: {"(", ")"}}

func (w *printer) operand(o *Operand) {
	if o.Not {
		w.add("!")
	}
	switch o.Kind {
	case VectorArg, AddressArg, GroupArg:
		w.add(brackets[o.Kind][0])
		for i := range o.List {
			if i > 0 {
				w.add(", ")
			}
			w.operand(&o.List[i])
		}
		w.add(brackets[o.Kind][1])
	case PairArg:
		w.operand(&o.List[0])
		w.add("|")
		w.operand(&o.List[1])
	default:
		if o.Generic {
			w.add("generic(", o.Text, ")")
		} else {
			w.add(o.Text)
		}
	}
	if o.Field != "" {
		w.add(".", o.Field)
	}
	if o.HasOffset {
		w.add("+")
		w.buf = strconv.AppendInt(w.buf, o.Offset, 10)
	}
}

func (w *printer) loc(l *Loc) {
	w.add(".loc ")
	w.place(l)
	if l.Function != "" {
		w.add(", function_name ", l.Function)
	}
	if l.Inlined != nil {
		w.add(", inlined_at ")
		w.place(l.Inlined)
	}
}

func (w *printer) place(l *Loc) {
	w.int(l.File)
	w.add(" ")
	w.int(l.Line)
	w.add(" ")
	w.int(l.Col)
}

func (w *printer) directive(d *Directive) {
	w.add(".", d.Name)
	for i, a := range d.Args {
		if i > 0 {
			w.add(",")
		}
		w.add(" ", a)
	}
}

func (w *printer) targets(t *Targets) {
	w.add(t.Name, ": ")
	if t.Calls {
		w.add(".calltargets ")
	} else {
		w.add(".branchtargets ")
	}
	for i := range t.List {
		if i > 0 {
			w.add(", ")
		}
		w.operand(&t.List[i])
	}
	w.add(";")
}

func (w *printer) prototype(p *Prototype) {
	w.add(p.Name, ": .callprototype ")
	if p.Returns != nil {
		w.params(p.Returns)
		w.add(" ")
	}
	w.add("_")
	if p.Params != nil {
		w.add(" ")
		w.params(p.Params)
	}
	for _, d := range p.Directives {
		w.add(" ")
		w.directive(d)
	}
	w.add(";")
}
