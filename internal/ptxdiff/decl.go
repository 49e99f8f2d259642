package ptxdiff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the comparison of declarations: signatures, directives, variables with their initial values.

// role is what is told of a variable without its name: a parameter's place, or the size of another one.
func (g *graph) role(v *ptx.Variable, name string) string {
	if role := g.roles[v]; role != "" {
		return role
	}
	return v.Space + " variable of " + size(v, g.names.declaration(v, name))
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
			d = len(n.Init.List)
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
		m[d.Name] += "." + d.Name + " " + strings.Join(d.Args, ", ")
	}
	return m
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
func sameHead(old, new *ptx.Variable) bool {
	return old.Space == new.Space && old.Align == new.Align && old.Attributes == new.Attributes
}

// initDiff is a pair of initial values that differ.
type initDiff struct {
	old, new *ptx.Init
	index    string // "[3]"
}

// maxInitDiffs is how many differing values of one table are told apart.
const maxInitDiffs = 20

// compareInits lists the values that differ. pair says whether two symbols stand for each other. Trailing zeros may be
// left out, so nothing is compared with zero.
func compareInits(t string, old, new *ptx.Init, pair func(old, new symbol) bool) (diffs []initDiff, structure bool) {
	var walk func(old, new *ptx.Init, index string)
	walk = func(old, new *ptx.Init, index string) {
		if len(diffs) >= maxInitDiffs || structure {
			return
		}
		switch {
		case old == nil && new == nil:
			return
		case old == nil:
			if !zeroInit(new) {
				diffs = append(diffs, initDiff{old, new, index})
			}
			return
		case new == nil:
			if !zeroInit(old) {
				diffs = append(diffs, initDiff{old, new, index})
			}
			return
		case old.List != nil && new.List != nil:
			for i := range max(len(old.List), len(new.List)) {
				walk(at(old.List, i), at(new.List, i), index+"["+strconv.Itoa(i)+"]")
			}
			return
		}
		if sym, same := sameInit(t, old, new, pair); sym && !same {
			structure = true
		} else if !same {
			diffs = append(diffs, initDiff{old, new, index})
		}
	}
	walk(old, new, "")
	return diffs, structure
}

func at(list []ptx.Init, i int) *ptx.Init {
	if i < len(list) {
		return &list[i]
	}
	return nil
}

func zeroInit(in *ptx.Init) bool {
	for i := range in.List {
		if !zeroInit(&in.List[i]) {
			return false
		}
	}
	return in.List != nil || in.Mask == "" && in.Value.Kind != ptx.SymbolArg && in.Value.Value == 0
}

// sameInit compares two single values; sym is true where a symbol is among them.
func sameInit(t string, old, new *ptx.Init, pair func(old, new symbol) bool) (sym, same bool) {
	if old.List != nil || new.List != nil || old.Mask != new.Mask {
		return true, false
	}
	a, b := &old.Value, &new.Value
	if a.Kind == ptx.SymbolArg || b.Kind == ptx.SymbolArg {
		return true, a.Kind == b.Kind && a.Offset == b.Offset && a.Generic == b.Generic && pair(symbolOf(a), symbolOf(b))
	}
	return false, initBits(t, a) == initBits(t, b)
}

// initBits is a number as a variable of that type holds it.
func initBits(t string, o *ptx.Operand) uint64 {
	in := ptx.Instr{Mods: []string{t}}
	return literal(&in, o)
}
