// This file implements the integer expressions and relations between dimensions.

package opspec

import (
	"math"
	"strconv"

	"gpuemu/internal/diag"
)

// Limits of one expression. The longest of the catalogue has about 40 bytes and depth 4.
const (
	MaxExprLen   = 512
	maxExprDepth = 32
)

// Expr is a parsed integer expression over dimension and attribute names: + - * / % with the usual
// precedence, unary minus, parentheses, min(a,b), max(a,b).
//
// Division rounds towards minus infinity and a % b has the sign of b, so that "(H-KH)/stride+1" is below 1
// whenever the window does not fit. Every operation is checked for overflow of 64 bits.
type Expr struct {
	src   string
	nodes []exprNode // in order of evaluation; the last is the root
}

type exprOp uint8

const (
	opNumber exprOp = iota + 1
	opName
	opNeg
	opAdd
	opSub
	opMul
	opDiv
	opMod
	opMin
	opMax
)

type exprNode struct {
	op   exprOp
	a, b int // operands: indices into nodes
	num  int64
	name string
	col  int // 1-based column in src
}

// Relation is a comparison of two expressions, e.g. "M != N".
type Relation struct {
	src         string
	left, right *Expr
	op          string
}

// ParseExpr parses an expression.
func ParseExpr(src string) (*Expr, error) {
	p := exprParser{src: src}
	e, err := p.whole()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokEnd {
		return nil, p.errorf("unexpected %s", p.tok.describe())
	}
	return e, nil
}

// ParseRelation parses two expressions with one of == != < <= > >= between them.
func ParseRelation(src string) (*Relation, error) {
	p := exprParser{src: src}
	left, err := p.whole()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokCompare {
		return nil, p.errorf("got %s, want one of == != < <= > >=", p.tok.describe())
	}
	op := p.tok.text
	p.nodes = nil
	right, err := p.whole()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokEnd {
		return nil, p.errorf("unexpected %s", p.tok.describe())
	}
	return &Relation{src: src, left: left, right: right, op: op}, nil
}

// String returns the source text.
func (e *Expr) String() string { return e.src }

// String returns the source text.
func (r *Relation) String() string { return r.src }

// Names returns the names the expression uses, each once, in order of appearance.
func (e *Expr) Names() []string { return appendNames(nil, e) }

// Names returns the names the relation uses, each once, in order of appearance.
func (r *Relation) Names() []string { return appendNames(appendNames(nil, r.left), r.right) }

func appendNames(names []string, e *Expr) []string {
next:
	for i := range e.nodes {
		if e.nodes[i].op != opName {
			continue
		}
		for _, n := range names {
			if n == e.nodes[i].name {
				continue next
			}
		}
		names = append(names, e.nodes[i].name)
	}
	return names
}

// Lookup gives the value of a name in an expression.
type Lookup func(name string) (int64, bool)

// Eval computes the expression.
func (e *Expr) Eval(lookup Lookup) (int64, error) {
	var buf [16]int64
	vals := buf[:0]
	for i := range e.nodes {
		n := &e.nodes[i]
		v, ok := n.num, true
		switch n.op {
		case opNumber:
		case opName:
			if v, ok = lookup(n.name); !ok {
				return 0, exprError(ExprUnknownName, "", e.src, n.col, "no dimension or integer attribute %q", n.name)
			}
		case opNeg:
			v, ok = checkedSub(0, vals[n.a])
		default:
			if (n.op == opDiv || n.op == opMod) && vals[n.b] == 0 {
				return 0, exprError(ExprArithmetic, "", e.src, n.col, "division by zero")
			}
			v, ok = apply(n.op, vals[n.a], vals[n.b])
		}
		if !ok {
			return 0, exprError(ExprArithmetic, "", e.src, n.col, "the result does not fit 64 bits")
		}
		vals = append(vals, v)
	}
	return vals[len(vals)-1], nil
}

// Holds reports whether the relation is true.
func (r *Relation) Holds(lookup Lookup) (bool, error) {
	l, err := r.left.Eval(lookup)
	if err != nil {
		return false, err
	}
	x, err := r.right.Eval(lookup)
	if err != nil {
		return false, err
	}
	switch r.op {
	case "==":
		return l == x, nil
	case "!=":
		return l != x, nil
	case "<":
		return l < x, nil
	case "<=":
		return l <= x, nil
	case ">":
		return l > x, nil
	}
	return l >= x, nil
}

func apply(op exprOp, a, b int64) (int64, bool) {
	switch op {
	case opAdd:
		c := a + b
		return c, (c > a) == (b > 0)
	case opSub:
		return checkedSub(a, b)
	case opMul:
		if a == 0 || b == 0 {
			return 0, true
		}
		c := a * b
		return c, c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
	case opDiv:
		if a == math.MinInt64 && b == -1 {
			return 0, false
		}
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return q, true
	case opMod:
		if b == -1 {
			return 0, true // MinInt64 % -1 is 0; the division behind it overflows
		}
		m := a % b
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m, true
	case opMin:
		return min(a, b), true
	case opMax:
		return max(a, b), true
	}
	panic("opspec: internal error: not a binary operator")
}

func checkedSub(a, b int64) (int64, bool) {
	c := a - b
	return c, (c < a) == (b > 0)
}

// solve finds the value of unknown that makes the expression equal to want, if unknown occurs once and only
// under + - * and unary minus, where the answer is unique. All other names must be known to lookup.
func (e *Expr) solve(unknown string, want int64, lookup Lookup) (int64, bool) {
	vals := make([]int64, len(e.nodes))
	path := make([]bool, len(e.nodes)) // contains the unknown
	for i := range e.nodes {
		n := &e.nodes[i]
		ok := true
		switch n.op {
		case opNumber:
			vals[i] = n.num
		case opName:
			if n.name == unknown {
				path[i] = true
			} else if vals[i], ok = lookup(n.name); !ok {
				return 0, false
			}
		case opNeg:
			path[i] = path[n.a]
			vals[i], ok = checkedSub(0, vals[n.a])
		default:
			if path[n.a] || path[n.b] {
				path[i] = true
				if path[n.a] && path[n.b] {
					return 0, false
				}
				continue
			}
			if (n.op == opDiv || n.op == opMod) && vals[n.b] == 0 {
				return 0, false
			}
			vals[i], ok = apply(n.op, vals[n.a], vals[n.b])
		}
		if !ok {
			return 0, false
		}
	}
	return e.descend(path, vals, want)
}

func (e *Expr) descend(path []bool, vals []int64, want int64) (int64, bool) {
	i := len(e.nodes) - 1
	if !path[i] {
		return 0, false
	}
	for e.nodes[i].op != opName {
		n := &e.nodes[i]
		ok := true
		known := n.b
		next := n.a
		if n.op != opNeg && path[n.b] {
			known, next = n.a, n.b
		}
		switch n.op {
		case opNeg:
			want, ok = checkedSub(0, want)
		case opAdd:
			want, ok = checkedSub(want, vals[known])
		case opSub:
			if next == n.a {
				want, ok = apply(opAdd, want, vals[known])
			} else {
				want, ok = checkedSub(vals[known], want)
			}
		case opMul:
			k := vals[known]
			if k == 0 || k == -1 && want == math.MinInt64 || want%k != 0 {
				return 0, false
			}
			want /= k
		default:
			return 0, false
		}
		if !ok {
			return 0, false
		}
		i = next
	}
	return want, true
}

type tokKind uint8

const (
	tokEnd tokKind = iota + 1
	tokNumber
	tokName
	tokPunct // + - * / % ( ) ,
	tokCompare
)

type exprToken struct {
	kind tokKind
	text string
	col  int
}

func (t exprToken) describe() string {
	if t.kind == tokEnd {
		return "end of text"
	}
	return strconv.Quote(t.text)
}

type exprParser struct {
	src   string
	pos   int
	tok   exprToken
	nodes []exprNode
	depth int
}

func exprError(code diag.Code, hint, src string, col int, format string, args ...any) *diag.Error {
	e := diag.Errorf(code, hint, format, args...)
	if len(src) > MaxExprLen {
		src = src[:MaxExprLen] + "…"
	}
	e.Msg = "expression " + strconv.Quote(src) + ", column " + strconv.Itoa(col) + ": " + e.Msg
	return e
}

func (p *exprParser) errorf(format string, args ...any) error {
	return exprError(ExprSyntax, "", p.src, p.tok.col, format, args...)
}

func (p *exprParser) whole() (*Expr, error) {
	if len(p.src) > MaxExprLen {
		return nil, exprError(ExprSyntax, "", p.src, MaxExprLen+1, "%d bytes, limit %d", len(p.src), MaxExprLen)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if _, err := p.sum(); err != nil {
		return nil, err
	}
	return &Expr{src: p.src, nodes: p.nodes}, nil
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || !first && '0' <= c && c <= '9'
}

// next scans one token into p.tok.
func (p *exprParser) next() error {
	for p.pos < len(p.src) && (p.src[p.pos] == ' ' || p.src[p.pos] == '\t') {
		p.pos++
	}
	start := p.pos
	p.tok = exprToken{kind: tokEnd, col: start + 1}
	if start == len(p.src) {
		return nil
	}
	c := p.src[start]
	switch {
	case '0' <= c && c <= '9':
		p.tok.kind = tokNumber
		for p.pos < len(p.src) && '0' <= p.src[p.pos] && p.src[p.pos] <= '9' {
			p.pos++
		}
	case isNameByte(c, true):
		p.tok.kind = tokName
		for p.pos < len(p.src) && isNameByte(p.src[p.pos], false) {
			p.pos++
		}
	case c == '=' || c == '!' || c == '<' || c == '>':
		p.tok.kind = tokCompare
		p.pos++
		if p.pos < len(p.src) && p.src[p.pos] == '=' {
			p.pos++
		} else if c == '=' || c == '!' {
			p.tok.text = p.src[start:p.pos]
			return p.errorf("got %q, want %q", string(c), string(c)+"=")
		}
	case c == '+' || c == '-' || c == '*' || c == '/' || c == '%' || c == '(' || c == ')' || c == ',':
		p.tok.kind = tokPunct
		p.pos++
	default:
		return p.errorf("character %q is not allowed", p.src[start:start+1])
	}
	p.tok.text = p.src[start:p.pos]
	return nil
}

func (p *exprParser) add(n exprNode) int {
	p.nodes = append(p.nodes, n)
	return len(p.nodes) - 1
}

func (p *exprParser) punct(text string) bool { return p.tok.kind == tokPunct && p.tok.text == text }

func (p *exprParser) sum() (int, error) {
	left, err := p.product()
	for err == nil && (p.punct("+") || p.punct("-")) {
		op, col := opAdd, p.tok.col
		if p.punct("-") {
			op = opSub
		}
		left, err = p.binary(op, col, left, p.product)
	}
	return left, err
}

func (p *exprParser) product() (int, error) {
	left, err := p.unary()
	for err == nil && (p.punct("*") || p.punct("/") || p.punct("%")) {
		op, col := opMul, p.tok.col
		switch p.tok.text {
		case "/":
			op = opDiv
		case "%":
			op = opMod
		}
		left, err = p.binary(op, col, left, p.unary)
	}
	return left, err
}

func (p *exprParser) binary(op exprOp, col, left int, operand func() (int, error)) (int, error) {
	if err := p.next(); err != nil {
		return 0, err
	}
	right, err := operand()
	if err != nil {
		return 0, err
	}
	return p.add(exprNode{op: op, a: left, b: right, col: col}), nil
}

func (p *exprParser) unary() (int, error) {
	if p.depth++; p.depth > maxExprDepth {
		return 0, p.errorf("nested deeper than %d", maxExprDepth)
	}
	defer func() { p.depth-- }()
	if !p.punct("-") {
		return p.primary()
	}
	col := p.tok.col
	if err := p.next(); err != nil {
		return 0, err
	}
	a, err := p.unary()
	if err != nil {
		return 0, err
	}
	return p.add(exprNode{op: opNeg, a: a, col: col}), nil
}

func (p *exprParser) primary() (int, error) {
	tok := p.tok
	switch {
	case tok.kind == tokNumber:
		v, err := strconv.ParseInt(tok.text, 10, 64)
		if err != nil {
			return 0, p.errorf("number %s does not fit 64 bits", tok.text)
		}
		return p.add(exprNode{op: opNumber, num: v, col: tok.col}), p.next()
	case tok.kind == tokName:
		if err := p.next(); err != nil {
			return 0, err
		}
		if p.punct("(") {
			return p.call(tok)
		}
		return p.add(exprNode{op: opName, name: tok.text, col: tok.col}), nil
	case p.punct("("):
		if err := p.next(); err != nil {
			return 0, err
		}
		i, err := p.sum()
		if err != nil {
			return 0, err
		}
		return i, p.expect(")")
	}
	return 0, p.errorf("got %s, want a number, a name or (", tok.describe())
}

func (p *exprParser) call(fn exprToken) (int, error) {
	op := opMin
	switch fn.text {
	case "min":
	case "max":
		op = opMax
	default:
		p.tok = fn
		return 0, p.errorf("unknown function %q, want min or max", fn.text)
	}
	if err := p.next(); err != nil {
		return 0, err
	}
	a, err := p.sum()
	if err != nil {
		return 0, err
	}
	if err := p.expect(","); err != nil {
		return 0, err
	}
	b, err := p.sum()
	if err != nil {
		return 0, err
	}
	i := p.add(exprNode{op: op, a: a, b: b, col: fn.col})
	return i, p.expect(")")
}

func (p *exprParser) expect(text string) error {
	if !p.punct(text) {
		return p.errorf("got %s, want %q", p.tok.describe(), text)
	}
	return p.next()
}
