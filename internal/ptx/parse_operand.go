package ptx

import (
	"fmt"
	"math"
	"strconv"
)

// This file implements the parser of operands and constant expressions.

func (i *opInfo) counts() string {
	if i.min == i.max {
		return strconv.Itoa(i.min)
	}
	return fmt.Sprintf("%d to %d", i.min, i.max)
}

// operand reads an operand. Lists in brackets are groups of a call; elsewhere brackets belong to an expression.
func (p *parser) operand(call bool) Operand {
	var o Operand
	switch k := p.tok.kind; {
	case k == tokIdent:
		o = p.nameOperand()
	case k == '{':
		o = Operand{Pos: p.pos(), Kind: VectorArg}
		p.next()
		o.List = p.list('}', "}", call)
	case k == '[':
		o = p.address(call)
	case k == '(' && call:
		o = Operand{Pos: p.pos(), Kind: GroupArg}
		p.next()
		o.List = p.list(')', ")", call)
	case k == '!' && p.beforeName():
		at := p.pos()
		p.next()
		o = p.nameOperand()
		o.Pos, o.Not = at, true
	default:
		return p.constant()
	}
	if p.tok.kind == '|' {
		return p.pairOperand(o)
	}
	return o
}

// address reads [base+offset], or [tensor map, {coordinates}].
func (p *parser) address(call bool) Operand {
	o := Operand{Pos: p.pos(), Kind: AddressArg}
	p.next()
	if o.List = p.list(']', "]", call); len(o.List) == 0 {
		p.fail(Syntax, o.Pos, "", "an address is empty")
	}
	if p.tok.kind == tokDot { // [a].unified
		o.Field = p.text()[1:]
		p.next()
	}
	return o
}

// beforeName reports whether a name follows the current token.
func (p *parser) beforeName() bool {
	l := p.lex
	t, err := l.next()
	return err == nil && t.kind == tokIdent
}

// list reads operands up to a closing bracket.
func (p *parser) list(end kind, closing string, call bool) []Operand {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	begin := len(p.stack)
	for p.err == nil && !p.accept(end) {
		p.push(p.operand(call))
		if p.tok.kind != end {
			p.expect(',', "a comma or "+closing)
		}
	}
	return p.pop(begin)
}

// push puts an operand on the stack.
func (p *parser) push(o Operand) {
	p.stack = append(p.stack, o)
	p.charge(operandSize)
	if len(p.stack) > p.deepest {
		p.deepest = len(p.stack)
		p.charge(2 * operandSize)
	}
}

// pop takes the operands off the stack that were put there last.
func (p *parser) pop(begin int) []Operand {
	list := p.operands.take(len(p.stack) - begin)
	copy(list, p.stack[begin:])
	p.stack = p.stack[:begin]
	return list
}

// pairOperand reads the second half of p|q.
func (p *parser) pairOperand(first Operand) Operand {
	p.next()
	o := Operand{Pos: first.Pos, Kind: PairArg, List: p.operands.take(2)}
	p.charge(2 * operandSize)
	o.List[0], o.List[1] = first, p.nameOperand()
	return o
}

// nameOperand reads a name, with its component, and an offset behind it. What it names is found later.
func (p *parser) nameOperand() Operand {
	o := Operand{Pos: p.pos(), Kind: RegisterArg, Text: p.ident("a name")}
	if o.Text == "_" {
		o.Kind = SinkArg
		return o
	}
	if o.Text == "generic" && p.accept('(') {
		o.Text, o.Generic = p.ident("a name"), true
		p.expect(')', ")")
	}
	if p.tok.kind == tokDot {
		o.Field = p.text()[1:]
		p.next()
	}
	if p.tok.kind == '+' || p.tok.kind == '-' {
		p.accept('+') // a minus is the sign of the number
		c := p.constant()
		if c.Kind != IntArg && p.err == nil {
			p.fail(Syntax, c.Pos, "", "an offset is a whole number")
		}
		o.HasOffset, o.Offset = true, int64(c.Value)
	}
	return o
}

// constant reads a number or a constant expression.
func (p *parser) constant() Operand {
	begin := p.pos()
	v := p.ternary()
	if p.err != nil {
		return Operand{Pos: begin, Kind: IntArg}
	}
	o := Operand{Pos: begin, Kind: IntArg, Text: p.lex.src[begin:v.end], Value: v.bits}
	if v.float {
		o.Kind = F64Arg
		if v.single {
			o.Kind = F32Arg
		}
	}
	return o
}

// value is the value of a constant expression. Whole numbers have 64 bits and are signed unless they do not fit or are
// written with U; floating-point ones are float64 (PTX ISA, 4.6), except for a float32 literal that stands alone.
type value struct {
	bits     uint64
	unsigned bool
	float    bool
	single   bool
	end      int32 // where its text ends
}

func (v value) number() float64 {
	switch {
	case v.single:
		return float64(math.Float32frombits(uint32(v.bits)))
	case v.float:
		return math.Float64frombits(v.bits)
	case v.unsigned:
		return float64(v.bits)
	}
	return float64(int64(v.bits))
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (p *parser) ternary() value {
	if !p.enter() {
		return value{}
	}
	defer p.leave()
	c := p.binary(1)
	if !p.accept('?') {
		return c
	}
	a := p.ternary()
	p.expect(':', "a colon")
	b := p.ternary()
	end := b.end
	if c.bits != 0 {
		b = a
	}
	b.end = end
	return b
}

// precedence of operators, as in C; 0 for what is none.
func precedence(k kind) int {
	switch k {
	case tokOrOr:
		return 1
	case tokAndAnd:
		return 2
	case '|':
		return 3
	case '^':
		return 4
	case '&':
		return 5
	case tokEQ, tokNE:
		return 6
	case '<', '>', tokLE, tokGE:
		return 7
	case tokShl, tokShr:
		return 8
	case '+', '-':
		return 9
	case '*', '/', '%':
		return 10
	}
	return 0
}

func (p *parser) binary(least int) value {
	a := p.unary()
	for p.err == nil {
		op, at := p.tok.kind, p.pos()
		level := precedence(op)
		if level == 0 || level < least {
			return a
		}
		p.next()
		b := p.binary(level + 1)
		end := b.end
		if a.float || b.float {
			a = p.floats(op, at, a, b)
		} else {
			a = p.ints(op, at, a, b)
		}
		a.end = end
	}
	return a
}

func (p *parser) floats(op kind, at Pos, a, b value) value {
	x, y := a.number(), b.number()
	compare := func(b bool) value { return value{bits: truth(b)} }
	result := func(f float64) value { return value{bits: math.Float64bits(f), float: true} }
	switch op {
	case '+':
		return result(x + y)
	case '-':
		return result(x - y)
	case '*':
		return result(x * y)
	case '/':
		return result(x / y)
	case '<':
		return compare(x < y)
	case '>':
		return compare(x > y)
	case tokLE:
		return compare(x <= y)
	case tokGE:
		return compare(x >= y)
	case tokEQ:
		return compare(x == y)
	case tokNE:
		return compare(x != y)
	}
	p.fail(Syntax, at, "", "this operator is for whole numbers only")
	return value{}
}

func (p *parser) ints(op kind, at Pos, a, b value) value {
	x, y, unsigned := a.bits, b.bits, a.unsigned || b.unsigned
	less := int64(x) < int64(y)
	if unsigned {
		less = x < y
	}
	result := func(v uint64) value { return value{bits: v, unsigned: unsigned} }
	switch op {
	case '+':
		return result(x + y)
	case '-':
		return result(x - y)
	case '*':
		return result(x * y)
	case '/', '%':
		return p.divide(op, at, a, b, unsigned)
	case '&':
		return result(x & y)
	case '|':
		return result(x | y)
	case '^':
		return result(x ^ y)
	case tokShl:
		return value{bits: x << min(y, 64), unsigned: a.unsigned}
	case tokShr:
		if a.unsigned {
			return value{bits: x >> min(y, 64), unsigned: true}
		}
		return value{bits: uint64(int64(x) >> min(y, 63))}
	case '<':
		return value{bits: truth(less)}
	case tokGE:
		return value{bits: truth(!less)}
	case '>':
		return value{bits: truth(!less && x != y)}
	case tokLE:
		return value{bits: truth(less || x == y)}
	case tokEQ:
		return value{bits: truth(x == y)}
	case tokNE:
		return value{bits: truth(x != y)}
	case tokAndAnd:
		return value{bits: truth(x != 0 && y != 0)}
	default: // tokOrOr
		return value{bits: truth(x != 0 || y != 0)}
	}
}

func (p *parser) divide(op kind, at Pos, a, b value, unsigned bool) value {
	switch {
	case b.bits == 0:
		p.fail(BadLiteral, at, "", "a constant is divided by zero")
		return value{}
	case unsigned && op == '/':
		return value{bits: a.bits / b.bits, unsigned: true}
	case unsigned:
		return value{bits: a.bits % b.bits, unsigned: true}
	case op == '/':
		return value{bits: uint64(int64(a.bits) / int64(b.bits))}
	}
	return value{bits: uint64(int64(a.bits) % int64(b.bits))}
}

// unary reads a number, an expression in brackets, a sign or a cast.
func (p *parser) unary() value {
	if !p.enter() {
		return value{}
	}
	defer p.leave()
	switch p.tok.kind {
	case tokInt, tokFloat, tokF32, tokF64:
		return p.literal()
	case '-', '+', '~', '!':
		return p.signed()
	case '(':
		p.next()
		cast := ""
		if p.tok.kind == tokDot {
			cast = p.text()
			p.next()
		}
		if cast == "" {
			v := p.ternary()
			v.end = p.tok.end
			p.expect(')', ")")
			return v
		}
		p.expect(')', ")")
		v := p.unary()
		if cast != ".s64" && cast != ".u64" || v.float {
			p.fail(Syntax, p.pos(), "", "a cast is to .s64 or .u64, of a whole number")
		}
		v.unsigned = cast == ".u64"
		return v
	}
	p.unexpected("an operand")
	return value{}
}

func (p *parser) signed() value {
	op, at := p.tok.kind, p.pos()
	p.next()
	v := p.unary()
	switch {
	case op == '!':
		return value{bits: truth(v.number() == 0), end: v.end}
	case op == '-' && v.float:
		return value{bits: math.Float64bits(-v.number()), float: true, end: v.end}
	case op == '-':
		v.bits = -v.bits
	case op == '~' && v.float:
		p.fail(Syntax, at, "", "this operator is for whole numbers only")
	case op == '~':
		v.bits = ^v.bits
	}
	return v
}

func (p *parser) literal() value {
	text, v := p.text(), value{end: p.tok.end}
	var err error
	switch p.tok.kind {
	case tokInt:
		var ok bool
		if v.bits, v.unsigned, ok = parseInt(text); !ok {
			p.fail(BadLiteral, p.pos(), "", "%s does not fit in 64 bits", text)
		}
	case tokF32:
		v.bits, err = strconv.ParseUint(text[2:], 16, 32)
		v.float, v.single = true, true
	case tokF64:
		v.bits, err = strconv.ParseUint(text[2:], 16, 64)
		v.float = true
	default:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v.bits, v.float = math.Float64bits(f), true
	}
	if err != nil {
		p.fail(BadLiteral, p.pos(), "", "%s is out of range", text)
	}
	p.next()
	return v
}

// parseInt reads a whole number as PTX writes it. Octal numbers begin with 0.
func parseInt(text string) (v uint64, unsigned, ok bool) {
	if text[len(text)-1] == 'U' {
		text, unsigned = text[:len(text)-1], true
	}
	if len(text) < 19 && text[0] != '0' { // the usual case: decimal, and it cannot overflow
		for _, c := range []byte(text) {
			v = 10*v + uint64(c-'0')
		}
		return v, unsigned, true
	}
	v, err := strconv.ParseUint(text, 0, 64)
	return v, unsigned || v > math.MaxInt64, err == nil
}
