package formula

import (
	"math"
	"slices"

	"github.com/expr-lang/expr/ast"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// This file implements the meaning of the parts of a text: their kinds, which are known before anything is computed,
// and how they are computed.

// Program is a formula ready to be computed. It may be used by several goroutines.
type Program struct {
	Kind Kind
	// DType is that of the conversion around everything, as in float32(eps); Invalid where there is none.
	DType dtype.DType
	// Memory is scratch or zeros, as in scratch(4 * rows), where the value is a number of bytes; "" elsewhere.
	Memory  string
	Name    string   // of the tensor, where the text is one
	Strides []string // tensors whose strides it asks for
	run     eval
}

// Env gives the value of a name that was known to Compile, of the same kind.
type Env func(name string) Value

type eval func(env Env) (Value, error)

// Eval computes the formula.
func (p *Program) Eval(env Env) (Value, error) { return p.run(env) }

// Compile resolves the names of a formula.
func (f *Formula) Compile(names map[string]Kind) (*Program, error) {
	c := &compiler{Formula: f, names: names, program: &Program{}}
	node, err := c.outermost(f.root)
	if err != nil {
		return nil, err
	}
	if id, ok := node.(*ast.IdentifierNode); ok && names[id.Value] == Tensor {
		c.program.Name = id.Value
	}
	if c.program.Kind, c.program.run, err = c.expr(node); err != nil {
		return nil, err
	}
	if c.program.Memory != "" && c.program.Kind != Int {
		return nil, c.at(node, WrongKind, "give a number of bytes", "%s of %s", c.program.Memory, c.program.Kind)
	}
	if n, ok := node.(*ast.BinaryNode); ok && n.Operator == "/" && c.program.Kind == Int && c.program.DType.IsFloat() {
		return nil, c.at(node, WrongKind, "write 1.0 / n for a fraction", "a / b of whole numbers rounds down")
	}
	return c.program, nil
}

// outermost takes what may stand around everything else: a conversion, or memory of some bytes.
func (c *compiler) outermost(node ast.Node) (ast.Node, error) {
	name, args, ok := callOf(node)
	d, err := dtype.Parse(name)
	memory := name == "scratch" || name == "zeros"
	switch {
	case !ok || err != nil && !memory:
		return node, nil
	case len(args) != 1:
		return nil, c.at(node, Syntax, "write float32(eps) or scratch(4 * n)", "%s takes one value, not %d", name, len(args))
	case memory:
		c.program.Memory = name
	default:
		c.program.DType = d
	}
	return args[0], nil
}

// compiler is one Compile.
type compiler struct {
	*Formula
	names   map[string]Kind
	program *Program
}

func (c *compiler) at(n ast.Node, code diag.Code, hint, format string, args ...any) *diag.Error {
	return c.fault(code, n.Location().From, hint, format, args...)
}

// constant is a value that depends on nothing.
func constant(v Value) (Kind, eval, error) {
	return v.Kind, func(Env) (Value, error) { return v, nil }, nil
}

// expr compiles what is allowed and refuses the rest.
func (c *compiler) expr(node ast.Node) (Kind, eval, error) {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return constant(Value{Kind: Int, Int: int64(n.Value)})
	case *ast.FloatNode:
		return constant(Value{Kind: Float, Float: n.Value})
	case *ast.BoolNode:
		return constant(truth(n.Value))
	case *ast.StringNode:
		return constant(Value{Kind: Text, Text: n.Value})
	case *ast.IdentifierNode:
		return c.name(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.choice(n)
	case *ast.MemberNode:
		return c.member(n)
	}
	if name, args, ok := callOf(node); ok {
		return c.call(node, name, args)
	}
	return 0, nil, c.at(node, Syntax, "use names, numbers, + - * / %, comparisons, a ? b : c and the functions of "+
		"docs/emulate.md", "this is more than a launch needs")
}

// callOf splits a call of a function. Some names are functions of the library, too, which are not used.
func callOf(node ast.Node) (name string, args []ast.Node, ok bool) {
	switch n := node.(type) {
	case *ast.BuiltinNode:
		return n.Name, n.Arguments, true
	case *ast.CallNode:
		if id, isName := n.Callee.(*ast.IdentifierNode); isName {
			return id.Value, n.Arguments, true
		}
	}
	return "", nil, false
}

func (c *compiler) name(n *ast.IdentifierNode) (Kind, eval, error) {
	kind, ok := c.names[n.Value]
	if !ok {
		if n.Value == "inf" {
			return constant(Value{Kind: Float, Float: math.Inf(1)})
		}
		return 0, nil, c.unknown(n, n.Value)
	}
	return kind, func(env Env) (Value, error) { return env(n.Value), nil }, nil
}

func (c *compiler) unknown(n ast.Node, name string) error {
	known := make([]string, 0, len(c.names))
	for k := range c.names {
		known = append(known, k)
	}
	slices.Sort(known)
	listed := "there are none"
	for i, k := range known {
		if i == 0 {
			listed = "known are " + k
		} else {
			listed += ", " + k
		}
	}
	return c.at(n, UnknownName, diag.Suggest(name, known, listed), "unknown name %q", name)
}

func (c *compiler) unary(n *ast.UnaryNode) (Kind, eval, error) {
	kind, x, err := c.expr(n.Node)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case (n.Operator == "!" || n.Operator == "not") && kind == Bool:
		return Bool, func(env Env) (Value, error) {
			v, err := x(env)
			return truth(v.Int == 0), err
		}, nil
	case n.Operator == "+" && (kind == Int || kind == Float):
		return kind, x, nil
	case n.Operator == "-" && kind == Float:
		return Float, func(env Env) (Value, error) {
			v, err := x(env)
			return Value{Kind: Float, Float: -v.Float}, err
		}, nil
	case n.Operator == "-" && kind == Int:
		return Int, c.whole(n, "-", func(Env) (Value, error) { return Value{Kind: Int}, nil }, x), nil
	}
	return 0, nil, c.at(n, WrongKind, "", "%s of %s", n.Operator, kind)
}

// binary compiles an operator with two operands.
func (c *compiler) binary(n *ast.BinaryNode) (Kind, eval, error) {
	return c.operator(n, n.Operator)
}

// operator compiles it as an operator that may be another one: the / of ceil(a / b) rounds up.
func (c *compiler) operator(n *ast.BinaryNode, op string) (Kind, eval, error) {
	lk, l, err := c.expr(n.Left)
	if err != nil {
		return 0, nil, err
	}
	rk, r, err := c.expr(n.Right)
	if err != nil {
		return 0, nil, err
	}
	numbers := isNumber(lk) && isNumber(rk)
	switch op {
	case "+", "-", "*", "/", "%", "ceil", "floor":
		switch {
		case lk == Int && rk == Int:
			return Int, c.whole(n, op, l, r), nil
		case numbers && op != "%":
			return Float, real(op, l, r), nil
		}
	case "<", "<=", ">", ">=", "==", "!=":
		if numbers || lk == rk && (lk == Text || lk == Bool) && (op == "==" || op == "!=") {
			return Bool, compared(op, l, r), nil
		}
	case "&&", "and", "||", "or":
		if lk == Bool && rk == Bool {
			return Bool, logic(op == "&&" || op == "and", l, r), nil
		}
	}
	return 0, nil, c.at(n, WrongKind, "use + - * / % < <= > >= == != && ||", "%s between %s and %s", n.Operator, lk, rk)
}

// choice compiles a ? b : c, of which only one side is computed.
func (c *compiler) choice(n *ast.ConditionalNode) (Kind, eval, error) {
	ck, cond, err := c.expr(n.Cond)
	if err != nil {
		return 0, nil, err
	}
	if ck != Bool {
		return 0, nil, c.at(n.Cond, WrongKind, "compare it: n > 0 ? 1 : 2", "a choice by %s", ck)
	}
	lk, l, err := c.expr(n.Exp1)
	if err != nil {
		return 0, nil, err
	}
	rk, r, err := c.expr(n.Exp2)
	switch {
	case err != nil:
		return 0, nil, err
	case lk != rk || lk == Tensor:
		return 0, nil, c.at(n, WrongKind, "", "a choice between %s and %s", lk, rk)
	}
	return lk, func(env Env) (Value, error) {
		v, err := cond(env)
		if err != nil {
			return Value{}, err
		}
		if v.Int != 0 {
			return l(env)
		}
		return r(env)
	}, nil
}

// member compiles x.numel, x.ndim, x.itemsize, x.shape[i] and x.strides[i]; a negative i counts from the end.
func (c *compiler) member(n *ast.MemberNode) (Kind, eval, error) {
	const hint = "use x.shape[0], x.strides[0], x.numel, x.ndim or x.itemsize"
	if name, ok := n.Property.(*ast.StringNode); ok {
		of, err := c.tensor(n.Node)
		if err != nil {
			return 0, nil, err
		}
		figures := map[string]func(m *Memory) int{
			"numel": func(m *Memory) int { return product(m.Shape) }, "ndim": func(m *Memory) int { return len(m.Shape) },
			"itemsize": func(m *Memory) int { return m.DType.Size() },
		}
		figure := figures[name.Value]
		if figure == nil {
			return 0, nil, c.at(n, UnknownName, hint, "a tensor has no .%s", name.Value)
		}
		return Int, func(env Env) (Value, error) {
			return Value{Kind: Int, Int: int64(figure(env(of).Tensor))}, nil
		}, nil
	}
	list, ok := n.Node.(*ast.MemberNode)
	if !ok {
		return 0, nil, c.at(n, Syntax, hint, "only shape and strides have an index")
	}
	which, ok := list.Property.(*ast.StringNode)
	if !ok || which.Value != "shape" && which.Value != "strides" {
		return 0, nil, c.at(n, Syntax, hint, "only shape and strides have an index")
	}
	of, err := c.tensor(list.Node)
	if err != nil {
		return 0, nil, err
	}
	kind, index, err := c.expr(n.Property)
	switch {
	case err != nil:
		return 0, nil, err
	case kind != Int:
		return 0, nil, c.at(n.Property, WrongKind, "", "an index is a whole number, not %s", kind)
	}
	if which.Value == "strides" {
		c.program.Strides = append(c.program.Strides, of)
	}
	return Int, func(env Env) (Value, error) {
		v, err := index(env)
		if err != nil {
			return v, err
		}
		m, i := env(of).Tensor, v.Int
		if i < 0 {
			i += int64(len(m.Shape))
		}
		if i < 0 || i >= int64(len(m.Shape)) {
			return v, c.at(n, Arithmetic, "", "%s has %d axes, there is no axis %d", of, len(m.Shape), v.Int)
		}
		sizes := m.Shape
		if which.Value == "strides" {
			sizes = m.Strides
		}
		return Value{Kind: Int, Int: int64(sizes[i])}, nil
	}, nil
}

// tensor is the name of one.
func (c *compiler) tensor(n ast.Node) (string, error) {
	id, ok := n.(*ast.IdentifierNode)
	if !ok {
		return "", c.at(n, Syntax, "name a tensor", "this has no parts")
	}
	kind, known := c.names[id.Value]
	switch {
	case !known:
		return "", c.unknown(n, id.Value)
	case kind != Tensor:
		return "", c.at(n, WrongKind, "only tensors have a shape", "%s is %s", id.Value, kind)
	}
	return id.Value, nil
}

func isNumber(k Kind) bool { return k == Int || k == Float }

func product(sizes []int) int {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	return n
}
