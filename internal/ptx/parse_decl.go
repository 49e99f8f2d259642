package ptx

import (
	"math"
	"strings"
)

// This file implements the parser of declarations: variables and functions.

// spaces are the state spaces that variables may be in.
var spaces = set("reg global const shared local param tex sreg")

// baseSpace is the space without what follows it: shared of shared::cta.
func baseSpace(space string) string {
	base, _, _ := strings.Cut(space, "::")
	return base
}

// variable reads a declaration up to its end, which is a semicolon, a comma or a bracket.
func (p *parser) variable(at Pos, linkage []string) *Variable {
	v := p.variableHead(at, linkage)
	for p.err == nil {
		v.Names = append(v.Names, p.name())
		p.charge(nameSize + entrySize)
		if !p.accept(',') {
			break
		}
	}
	return v
}

// variableHead reads everything before the first name.
func (p *parser) variableHead(at Pos, linkage []string) *Variable {
	v := &Variable{Pos: at, Linkage: linkage}
	p.charge(variableSize)
	if p.tok.kind != tokDot || !spaces[baseSpace(p.text()[1:])] {
		p.unexpected("a state space such as .global")
		return v
	}
	v.Space = p.text()[1:]
	p.next()
	for p.tok.kind == tokDot {
		switch name := p.text()[1:]; {
		case name == "align":
			v.Align = p.align()
		case name == "attribute":
			v.Attributes = p.attribute()
		case name == "v2" || name == "v4" || name == "v8":
			v.Vec = name
			p.next()
		case types[name] && v.Type == "":
			v.Type = name
			p.next()
		case name == "ptr" && v.Type != "":
			v.Ptr = p.pointer()
		default:
			p.fail(UnknownDirective, p.pos(), "", "%s is not known in a declaration", p.text())
		}
	}
	if v.Type == "" {
		p.unexpected("a type such as .b32")
	}
	return v
}

// align reads .align N.
func (p *parser) align() int {
	p.next()
	at := p.pos()
	n := p.integer("an alignment", 1, 1<<30)
	if n&(n-1) != 0 {
		p.fail(BadLiteral, at, "", "alignment %d is not a power of two", n)
	}
	return n
}

// attribute reads .attribute( ) and returns what is in it.
func (p *parser) attribute() string {
	p.next()
	if p.tok.kind != '(' {
		p.unexpected("(")
		return ""
	}
	begin, depth := p.tok.end, 0
	for p.err == nil {
		switch p.tok.kind {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				text := p.lex.src[begin:p.tok.pos]
				p.next()
				return strings.TrimSpace(text)
			}
		case tokDot, tokInt, ',':
		default:
			p.unexpected("an attribute such as .managed")
		}
		p.next()
	}
	return ""
}

// pointer reads .ptr[.space][.align N].
func (p *parser) pointer() *Pointer {
	ptr := &Pointer{}
	p.next()
	if p.tok.kind == tokDot && spaces[baseSpace(p.text()[1:])] {
		ptr.Space = p.text()[1:]
		p.next()
	}
	if p.is(".align") {
		ptr.Align = p.align()
	}
	return ptr
}

// name reads one name with count, dimensions and initial value.
func (p *parser) name() Name {
	n := Name{Pos: p.pos(), Name: p.ident("a name")}
	if p.accept('<') {
		n.Count = p.integer("a number of registers", 1, math.MaxInt32)
		p.expect('>', ">")
	}
	for p.accept('[') {
		p.charge(wordSize)
		if p.accept(']') {
			n.Dims = append(n.Dims, -1)
			continue
		}
		n.Dims = append(n.Dims, p.integer("a number of elements", 0, math.MaxInt64))
		p.expect(']', "]")
	}
	if p.accept('=') {
		init := p.init()
		n.Init = &init
	}
	return n
}

// init reads an initial value.
func (p *parser) init() Init {
	in := Init{Pos: p.pos()}
	if !p.enter() {
		return in
	}
	defer p.leave()
	if !p.accept('{') {
		in.Value = p.initValue(&in.Mask)
		return in
	}
	plain := &numbers{lex: p.lex}
	plain.lex.at = p.tok.pos
	in.numbers = plain
	for p.err == nil && !p.accept('}') {
		e := p.init()
		if p.err != nil {
			break
		}
		if in.numbers != nil && e.isNumber() {
			plain.n++
		} else {
			if in.numbers != nil {
				p.spell(&in)
			}
			p.charge(initSize)
			in.list = append(in.list, e)
		}
		if p.tok.kind != '}' {
			p.expect(',', "a comma or }")
		}
	}
	p.charge(wordSize)
	return in
}

// spell makes a list of an initial value whose elements were numbers so far.
func (p *parser) spell(in *Init) {
	p.charge(in.Len() * initSize)
	list := []Init{}
	if p.err == nil {
		for e := range in.Elements() {
			list = append(list, *e)
		}
	}
	in.list, in.numbers = list, nil
}

// initValue reads a constant, a symbol with offset, or a byte of an address: 0xFF00(symbol).
func (p *parser) initValue(mask *string) Operand {
	if p.tok.kind == tokIdent {
		return p.nameOperand()
	}
	v := p.constant()
	if p.accept('(') {
		*mask = v.Text
		v = p.nameOperand()
		p.expect(')', ")")
	}
	return v
}

// enter counts a level of nesting.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxNesting {
		p.fail(Limit, p.pos(), "", "nested more than %d deep", maxNesting)
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// function reads a kernel or a function, or its declaration.
func (p *parser) function(at Pos, linkage []string) {
	fn := &Function{Pos: at, Linkage: linkage, Entry: p.is(".entry")}
	p.charge(functionSize + entrySize)
	p.next()
	if p.is(".attribute") {
		fn.Attributes = p.attribute()
	}
	if p.tok.kind == '(' && !fn.Entry {
		fn.Returns = p.parameters()
	}
	fn.Name = p.ident("the name of a function")
	if p.tok.kind == '(' {
		fn.Params = p.parameters()
	}
	for p.tok.kind == tokDot {
		if !tuning[p.text()] {
			p.fail(UnknownDirective, p.pos(), "", "directive %s is not known on a function", p.text())
			return
		}
		d := p.directive()
		fn.Directives = append(fn.Directives, d)
		if d.Name == "pragma" {
			p.expect(';', "a semicolon")
		}
	}
	if p.err != nil {
		return
	}
	p.file.Items = append(p.file.Items, fn)
	p.file.Functions = append(p.file.Functions, fn)
	if p.accept(';') {
		return
	}
	if p.tok.kind != '{' {
		p.unexpected("{ or a semicolon")
		return
	}
	p.fn, p.loc = fn, nil
	fn.Body = p.block()
	p.fn, p.loc = nil, nil
}

// tuning are the directives that may stand before the body of a function.
var tuning = set(`.maxntid .reqntid .minnctapersm .maxnctapersm .maxnreg .noreturn .pragma .explicitcluster
	.reqnctapercluster .maxclusterrank .blocksareclusters .abi_preserve .abi_preserve_control`)

// parameters reads a list in brackets. Unnamed ones of prototypes are called _.
func (p *parser) parameters() []*Variable {
	list := []*Variable{}
	p.next()
	for p.err == nil && !p.accept(')') {
		v := p.variableHead(p.pos(), nil)
		v.Names = []Name{p.name()}
		p.charge(nameSize + entrySize)
		list = append(list, v)
		if p.tok.kind != ')' {
			p.expect(',', "a comma or )")
		}
	}
	return list
}
