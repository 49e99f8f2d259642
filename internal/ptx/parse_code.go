package ptx

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// This file implements the parser of function bodies.

// block reads what stands between braces. Source lines and labels of inner blocks go on in the outer one.
func (p *parser) block() *Block {
	b := &Block{Pos: p.pos()}
	p.charge(nodeSize + statementSize)
	if !p.enter() {
		return b
	}
	defer p.leave()
	p.next()
	for p.tok.kind != '}' {
		if p.tok.kind == tokEOF {
			p.fail(Syntax, b.Pos, "close it with }", "a block has no end")
			return b
		}
		p.statement(b)
	}
	b.End = p.pos()
	p.next()
	return b
}

func (p *parser) statement(b *Block) {
	if p.tok.kind != ';' {
		p.charge(statementSize)
	}
	switch p.tok.kind {
	case tokIdent:
		if colon := p.colon(); colon >= 0 {
			p.label(b, colon)
			return
		}
		b.Stmts = append(b.Stmts, p.instruction(p.pos(), nil))
	case '@':
		if strings.HasPrefix(p.lex.src[p.tok.pos:], "@@") {
			p.debugLine(&b.Stmts)
			return
		}
		at := p.pos()
		p.next()
		guard := p.operands.take(1)
		p.charge(operandSize)
		guard[0] = p.operand(false)
		if guard[0].Kind != RegisterArg {
			p.fail(Syntax, guard[0].Pos, "", "a predicate register is expected behind @")
		}
		b.Stmts = append(b.Stmts, p.instruction(at, &guard[0]))
	case '{':
		b.Stmts = append(b.Stmts, p.block())
	case ';':
		p.next() // an empty statement, as inline assembly leaves it
	case tokDot:
		if stmt := p.inner(); stmt != nil {
			b.Stmts = append(b.Stmts, stmt)
		}
	default:
		p.unexpected("an instruction")
	}
}

// inner reads a directive within code.
func (p *parser) inner() Stmt {
	switch text := p.text(); {
	case text == ".loc":
		l := p.location()
		p.loc = l
		return l
	case text == ".file":
		return p.fileName()
	case text == ".pragma":
		d := p.directive()
		p.expect(';', "a semicolon")
		return d
	case spaces[baseSpace(text[1:])] || linkages[text]:
		at := p.pos()
		v := p.variable(at, p.linkage())
		p.expect(';', "a semicolon")
		return v
	default:
		p.fail(UnknownDirective, p.pos(), "", "directive %s is not known in code", text)
		return nil
	}
}

// colon is where the colon behind the current name stands, -1 if none does. A label may be followed by spaces.
func (p *parser) colon() int {
	at := int(p.tok.end)
	for at < len(p.lex.src) && class[p.lex.src[at]]&clsSpace != 0 {
		at++
	}
	if at < len(p.lex.src) && p.lex.src[at] == ':' {
		return at
	}
	return -1
}

// label reads a label, or a list of targets or a prototype that has one.
func (p *parser) label(b *Block, colon int) {
	at, name := p.pos(), p.text()
	p.lex.at = int32(colon + 1)
	p.next()
	switch {
	case p.is(".branchtargets"), p.is(".calltargets"):
		t := &Targets{Pos: at, Name: name, Calls: p.is(".calltargets")}
		p.next()
		for {
			t.List = append(t.List, p.nameOperand())
			p.charge(2 * operandSize)
			if !p.accept(',') {
				break
			}
		}
		p.expect(';', "a semicolon")
		b.Stmts = append(b.Stmts, t)
	case p.is(".callprototype"):
		b.Stmts = append(b.Stmts, p.prototype(at, name))
	default:
		l := &Label{Pos: at, Name: name, Index: len(p.fn.Code)}
		p.charge(nodeSize + entrySize)
		p.fn.Labels = append(p.fn.Labels, l)
		b.Stmts = append(b.Stmts, l)
	}
}

// prototype reads .callprototype (returns) _ (params) directives;
func (p *parser) prototype(at Pos, name string) *Prototype {
	proto := &Prototype{Pos: at, Name: name}
	p.charge(functionSize)
	p.next()
	if p.tok.kind == '(' {
		proto.Returns = p.parameters()
	}
	if p.ident("_") != "_" {
		p.fail(Syntax, at, "", "a prototype has a name, not _")
	}
	if p.tok.kind == '(' {
		proto.Params = p.parameters()
	}
	for p.tok.kind == tokDot {
		if !tuning[p.text()] {
			p.fail(UnknownDirective, p.pos(), "", "directive %s is not known on a prototype", p.text())
			return proto
		}
		proto.Directives = append(proto.Directives, p.directive())
	}
	p.expect(';', "a semicolon")
	return proto
}

// location reads .loc file line column[, function_name NAME[+offset], inlined_at file line column].
func (p *parser) location() *Loc {
	at := p.pos()
	p.next()
	l := p.place(at)
	for p.accept(',') {
		switch word := p.ident("function_name or inlined_at"); word {
		case "function_name":
			begin := p.pos()
			if p.tok.kind != tokIdent && p.tok.kind != tokDot {
				p.unexpected("the name of a function")
			}
			end := p.tok.end
			p.next()
			if p.accept('+') {
				end = p.tok.end
				p.integer("an offset", 0, math.MaxInt64)
			}
			if p.err == nil {
				l.Function = p.lex.src[begin:end]
			}
		case "inlined_at":
			l.Inlined = p.place(p.pos())
		default:
			p.fail(UnknownDirective, p.pos(), "", "%q is not known in .loc", word)
		}
	}
	return l
}

// place reads three numbers.
func (p *parser) place(at Pos) *Loc {
	l := &Loc{Pos: at}
	p.charge(nodeSize)
	l.File = p.integer("the number of a file", 0, math.MaxInt32)
	l.Line = p.integer("a line", 0, math.MaxInt32)
	l.Col = p.integer("a column", 0, math.MaxInt32)
	return l
}

// mnemonic is an opcode with modifiers as it stands in a file, looked up once.
type mnemonic struct {
	op   string
	mods []string
	info *opInfo
}

// instruction reads an instruction behind its guard.
func (p *parser) instruction(at Pos, guard *Operand) *Instr {
	in := &p.instrs.take(1)[0]
	p.charge(instrSize)
	*in = Instr{Pos: at, Guard: guard, Loc: p.loc, Index: len(p.fn.Code)}
	m := p.mnemonic()
	if m == nil {
		return in
	}
	in.Op, in.Mods, in.info = m.op, m.mods, m.info
	begin := len(p.stack)
	for p.tok.kind != ';' {
		if len(p.stack) > begin && !p.accept(',') {
			p.unexpected("a comma or a semicolon")
			return in
		}
		p.push(p.operand(m.op == "call"))
	}
	if n := len(p.stack) - begin; n < m.info.min || n > m.info.max {
		p.fail(OperandCount, at, "", "%s has %d operands, not %s", in.Mnemonic(), n, m.info.counts())
		return in
	}
	p.next()
	in.Args = p.pop(begin)
	p.fn.Code = append(p.fn.Code, in)
	return in
}

// mnemonic reads an opcode with its modifiers.
func (p *parser) mnemonic() *mnemonic {
	if p.tok.kind != tokIdent {
		p.unexpected("an instruction")
		return nil
	}
	begin, end := int(p.tok.pos), int(p.tok.end)
	src := p.lex.src
	for end < len(src) && src[end] == '.' {
		end = dotEnd(src, end+1)
	}
	text := src[begin:end]
	p.lex.at = int32(end)
	p.next()
	spaced := false
	for p.tok.kind == tokDot { // spaces before a modifier: rare, and not worth a fast way
		text, spaced = text+p.text(), true
		p.next()
	}
	if m := p.mnemonics[text]; m != nil {
		return m
	}
	parts := strings.Split(text, ".")
	m := &mnemonic{op: parts[0], mods: parts[1:], info: opcodes[parts[0]]}
	if m.info == nil {
		p.fail(UnknownOpcode, Pos(begin), "if ptxas accepts it, please report it", "instruction %s is not known%s", text,
			p.source())
		return nil
	}
	at := begin + len(m.op)
	for _, mod := range m.mods {
		if !knownModifier(mod) {
			if spaced {
				at = begin
			}
			p.fail(UnknownModifier, Pos(at), "if ptxas accepts it, please report it",
				"modifier .%s of %s is not known%s", mod, text, p.source())
			return nil
		}
		at += len(mod) + 1
	}
	p.mnemonics[text] = m
	return m
}

// source names the source line in effect for an error, in parentheses. The names of files often stand at the end of a
// module, which is then not read yet.
func (p *parser) source() string {
	if p.loc == nil || p.loc.Line == 0 {
		return ""
	}
	names := regexp.MustCompile(fmt.Sprintf(`(?m)^[ \t]*\.file[ \t]+%d[ \t]+"([^"\n]*)"`, p.loc.File))
	name := fmt.Sprintf("file %d", p.loc.File)
	if m := names.FindStringSubmatch(p.lex.src); m != nil {
		name = m[1]
	}
	return fmt.Sprintf(" (%s:%d)", name, p.loc.Line)
}
