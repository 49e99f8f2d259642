package ptxdiff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the comparison of declarations: signatures, directives, variables with their initial values.

// role is what is told of a variable: a parameter's place, or the size of another one. Its name is told only where
// others must know it, since the text does not say what it holds.
func (g *graph) role(v *ptx.Variable, name string) string {
	if role := g.roles[v]; role != "" {
		return role
	}
	n := g.names.declaration(v, name)
	role := v.Space + " variable"
	if v.External() && n.Init == nil {
		role += " " + name
	}
	return role + " of " + size(v, n)
}

// size is the size of a variable in words: in bytes, "unknown size" for an array without one.
func size(v *ptx.Variable, n *ptx.Name) string {
	bits := widths[v.Type]
	switch v.Vec {
	case "v2":
		bits *= 2
	case "v4":
		bits *= 4
	case "v8":
		bits *= 8
	}
	if bits == 0 {
		return "type " + v.Type
	}
	total := uint64(max(bits, 8) / 8)
	for i, d := range n.Dims {
		if d < 0 && (i > 0 || n.Init == nil) {
			return "unknown size"
		}
		if d < 0 {
			d = n.Init.Len()
		}
		if total *= uint64(d); total > 1<<50 { // no memory is that large, and it must not overflow
			return "huge size"
		}
	}
	return strconv.FormatUint(total, 10) + " bytes"
}

// signature is a list of parameters without names.
func signature(lists ...[]*ptx.Variable) string {
	var b strings.Builder
	for _, list := range lists {
		b.WriteByte('(')
		for i, v := range list {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(parameter(v))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// parameter is a parameter without its name.
func parameter(v *ptx.Variable) string {
	text := "." + v.Space
	if v.Align != 0 {
		text += fmt.Sprintf(" .align %d", v.Align)
	}
	if v.Vec != "" {
		text += " ." + v.Vec
	}
	text += " ." + v.Type
	if v.Ptr != nil && (v.Ptr.Space != "" || v.Ptr.Align > 1) { // without these it says nothing
		text += " .ptr"
		if v.Ptr.Space != "" {
			text += " ." + v.Ptr.Space
		}
		if v.Ptr.Align != 0 {
			text += fmt.Sprintf(" .align %d", v.Ptr.Align)
		}
	}
	for _, n := range v.Names {
		for _, d := range n.Dims {
			text += fmt.Sprintf("[%d]", d)
		}
	}
	return text
}

// sameParameter reports whether two parameters are declared alike. b32 says nothing of the type, so it goes with any of
// that size.
func sameParameter(old, new *ptx.Variable) bool {
	o, n := *old, *new
	if widths[o.Type] == widths[n.Type] && (strings.HasPrefix(o.Type, "b") || strings.HasPrefix(n.Type, "b")) {
		o.Type, n.Type = "", ""
	}
	return parameter(&o) == parameter(&n)
}

// directives are the directives of a function, each with its arguments. A pragma may stand there several times.
func directives(fn *ptx.Function) map[string]string {
	m := map[string]string{}
	for _, d := range fn.Directives {
		if m[d.Name] != "" {
			m[d.Name] += "; "
		}
		m[d.Name] += "." + d.Name + " " + strings.Join(arguments(d), ", ")
	}
	return m
}

// arguments are the arguments of a directive. Extents of 1 may be left out at the end.
func arguments(d *ptx.Directive) []string {
	args := d.Args
	switch d.Name {
	case "maxntid", "reqntid", "reqnctapercluster":
		for len(args) > 1 && args[len(args)-1] == "1" {
			args = args[:len(args)-1]
		}
	}
	return args
}

// compareSignatures reports what differs in front of the bodies.
func (c *comparer) compareSignatures(old, new *ptx.Function) {
	c.compareParameters("parameter", old, new, old.Params, new.Params)
	c.compareParameters("result", old, new, old.Returns, new.Returns)
	was, is := directives(old), directives(new)
	var keys []string
	for k := range was {
		keys = append(keys, k)
	}
	for k := range is {
		if _, both := was[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if was[k] != is[k] {
			c.directive(c.old.place(old.Pos, orNone(was[k])), c.new.place(new.Pos, orNone(is[k])),
				fmt.Sprintf("%s became %s", orNone(was[k]), orNone(is[k])))
		}
	}
}

func orNone(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

func (c *comparer) compareParameters(what string, oldFn, newFn *ptx.Function, old, new []*ptx.Variable) {
	for i := range max(len(old), len(new)) {
		oldAt, newAt, was, is := oldFn.Pos, newFn.Pos, "nothing", "nothing"
		if i < len(old) {
			oldAt, was = old[i].Pos, parameter(old[i])
		}
		if i < len(new) {
			newAt, is = new[i].Pos, parameter(new[i])
		}
		if i < len(old) && i < len(new) && sameParameter(old[i], new[i]) {
			continue
		}
		c.directive(c.old.place(oldAt, was), c.new.place(newAt, is),
			fmt.Sprintf("%s %d: %s became %s", what, i, was, is))
	}
}

// directive records a change of a declaration.
func (c *comparer) directive(old, new Place, message string) {
	c.record(Change{Kind: DirectiveChanged, Rank: Structure, Old: old, New: new, Message: message})
}

// symbol is a name that has an address: a variable or a function.
type symbol struct {
	v    *ptx.Variable
	name string
	fn   *ptx.Function
}

func symbolOf(o *ptx.Operand) symbol {
	if o.Func != nil {
		return symbol{fn: o.Func}
	}
	return symbol{v: o.Var, name: o.Text}
}

// sameHead reports whether two variables are declared alike, initial values aside. Their sizes are compared elsewhere.
// What one of them holds that another module defines is not known.
func sameHead(old, new *ptx.Variable) bool {
	return old.Space == new.Space && old.Align == new.Align && old.Attributes == new.Attributes &&
		slices.Contains(old.Linkage, "extern") == slices.Contains(new.Linkage, "extern")
}

// sameName reports whether two variables may stand for each other as far as others know them: a host sets the one of
// that name. A table that the text fills may be renamed, as long as neither name is that of another variable on the
// other side.
func (c *comparer) sameName(old, new symbol) bool {
	if old.v.External() != new.v.External() {
		return false
	}
	a, b := c.names.declaration(old.v, old.name), c.names.declaration(new.v, new.name)
	return !old.v.External() || old.name == new.name ||
		a.Init != nil && b.Init != nil && !c.old.variables[new.name] && !c.new.variables[old.name]
}
