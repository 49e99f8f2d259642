package formula

import (
	"math"
	"math/bits"

	"github.com/expr-lang/expr/ast"
)

// This file implements arithmetic and functions.

func truth(b bool) Value {
	if b {
		return Value{Kind: Bool, Int: 1}
	}
	return Value{Kind: Bool}
}

// number is a value as a float64, which whole numbers up to 2^53 fit exactly.
func (v Value) number() float64 {
	if v.Kind == Int {
		return float64(v.Int)
	}
	return v.Float
}

// both computes two operands.
func both(env Env, l, r eval) (x, y Value, err error) {
	if x, err = l(env); err == nil {
		y, err = r(env)
	}
	return x, y, err
}

// whole is an operation on whole numbers.
func (c *compiler) whole(n ast.Node, op string, l, r eval) eval {
	return func(env Env) (Value, error) {
		x, y, err := both(env, l, r)
		if err != nil {
			return Value{}, err
		}
		z, ok := int64(0), true
		a, b := x.Int, y.Int
		switch op {
		case "+":
			z = a + b
			ok = (z > a) == (b > 0)
		case "-":
			z = a - b
			ok = (z < a) == (b > 0)
		case "*":
			z, ok = times(a, b)
		default:
			if b == 0 {
				return Value{}, c.at(n, Arithmetic, "", "division by zero")
			}
			var m int64
			if z, m, ok = divided(a, b); op == "%" {
				z, ok = m, true
			} else if op == "ceil" && m != 0 {
				z++ // the quotient of a division with a remainder is not the largest number
			}
		}
		if !ok {
			return Value{}, c.at(n, Arithmetic, "", "the result does not fit 64 bits")
		}
		return Value{Kind: Int, Int: z}, nil
	}
}

func times(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	negative := (a < 0) != (b < 0)
	switch {
	case hi != 0 || lo > 1<<63 || lo == 1<<63 && !negative:
		return 0, false
	case negative:
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// divided is the quotient, rounded down, and the remainder, which has the sign of b.
func divided(a, b int64) (q, m int64, ok bool) {
	if a == math.MinInt64 && b == -1 {
		return 0, 0, false
	}
	q, m = a/b, a%b
	if m != 0 && (m < 0) != (b < 0) {
		q, m = q-1, m+b
	}
	return q, m, true
}

// real is an operation on numbers of which one is a fraction.
func real(op string, l, r eval) eval {
	return func(env Env) (Value, error) {
		x, y, err := both(env, l, r)
		a, b := x.number(), y.number()
		switch op {
		case "+":
			a += b
		case "-":
			a -= b
		case "*":
			a *= b
		default: // ceil(a / b) and floor(a / b), too: what is rounded is the quotient
			a /= b
		}
		return Value{Kind: Float, Float: a}, err
	}
}

func compared(op string, l, r eval) eval {
	return func(env Env) (Value, error) {
		x, y, err := both(env, l, r)
		var less, equal, more bool // none of them where one is NaN
		switch {
		case x.Kind == Text:
			equal = x.Text == y.Text
		case x.Kind == Float || y.Kind == Float:
			a, b := x.number(), y.number()
			less, equal, more = a < b, a == b, a > b
		default:
			less, equal, more = x.Int < y.Int, x.Int == y.Int, x.Int > y.Int
		}
		return truth(map[string]bool{"<": less, "<=": less || equal, ">": more, ">=": more || equal, "==": equal,
			"!=": !equal}[op]), err
	}
}

// logic is a && b or a || b; the right side is computed only where it decides.
func logic(and bool, l, r eval) eval {
	return func(env Env) (Value, error) {
		x, err := l(env)
		if err != nil || (x.Int != 0) != and {
			return x, err
		}
		return r(env)
	}
}

// call compiles a function.
func (c *compiler) call(node ast.Node, name string, args []ast.Node) (Kind, eval, error) {
	const all = "there are ceil, floor, cdiv, min, max, abs, sqrt, next_pow2, and around everything float32 and the " +
		"like, scratch and zeros"
	want, ok := map[string]int{"ceil": 1, "floor": 1, "cdiv": 2, "abs": 1, "sqrt": 1, "next_pow2": 1, "min": 0,
		"max": 0}[name]
	switch {
	case !ok:
		return 0, nil, c.at(node, UnknownName, all, "no function %q here", name)
	case want > 0 && len(args) != want, want == 0 && len(args) < 2:
		return 0, nil, c.at(node, Syntax, "", "%s of %d values", name, len(args))
	case name == "ceil" || name == "floor":
		return c.round(node, name, args[0])
	}
	kinds, evals := make([]Kind, len(args)), make([]eval, len(args))
	kind := Int
	for i, a := range args {
		var err error
		if kinds[i], evals[i], err = c.expr(a); err != nil {
			return 0, nil, err
		}
		if !isNumber(kinds[i]) {
			return 0, nil, c.at(a, WrongKind, "", "%s of %s", name, kinds[i])
		}
		kind = max(kind, kinds[i]) // Float where one of them is
	}
	switch name {
	case "min", "max":
		return kind, extreme(kind, name == "min", evals), nil
	case "cdiv":
		if kind == Int {
			return Int, c.whole(node, "ceil", evals[0], evals[1]), nil
		}
	case "next_pow2":
		if kind == Int {
			return Int, c.power(node, evals[0]), nil
		}
	default:
		return c.single(node, name, kind, evals[0])
	}
	return 0, nil, c.at(node, WrongKind, "", "%s of %s", name, kind)
}

// single is abs or sqrt.
func (c *compiler) single(node ast.Node, name string, kind Kind, x eval) (Kind, eval, error) {
	if name == "abs" && kind == Int {
		zero := func(Env) (Value, error) { return Value{Kind: Int}, nil }
		return Int, func(env Env) (Value, error) {
			v, err := x(env)
			if err != nil || v.Int >= 0 {
				return v, err
			}
			return c.whole(node, "-", zero, func(Env) (Value, error) { return v, nil })(env)
		}, nil
	}
	f := math.Sqrt
	if name == "abs" {
		f = math.Abs
	}
	return Float, func(env Env) (Value, error) {
		v, err := x(env)
		return Value{Kind: Float, Float: f(v.number())}, err
	}, nil
}

// extreme is the least or the greatest of several numbers.
func extreme(kind Kind, least bool, list []eval) eval {
	return func(env Env) (Value, error) {
		best, err := list[0](env)
		for _, x := range list[1:] {
			v, e := x(env)
			if err == nil {
				err = e
			}
			less := v.number() < best.number()
			if kind == Int { // above 2^53 a float64 does not tell them apart
				less = v.Int < best.Int
			}
			if less == least {
				best = v
			}
		}
		if kind == Float {
			best = Value{Kind: Float, Float: best.number()}
		}
		return best, err
	}
}

// power is the least power of two that is not below a number: the block of a Triton kernel.
func (c *compiler) power(node ast.Node, x eval) eval {
	return func(env Env) (Value, error) {
		v, err := x(env)
		switch {
		case err != nil:
			return v, err
		case v.Int > 1<<62:
			return v, c.at(node, Arithmetic, "", "the result does not fit 64 bits")
		case v.Int <= 1:
			return Value{Kind: Int, Int: 1}, nil
		}
		return Value{Kind: Int, Int: 1 << bits.Len64(uint64(v.Int-1))}, nil
	}
}

// round compiles ceil and floor: of a division of whole numbers, which is exact, or of a fraction.
func (c *compiler) round(node ast.Node, name string, arg ast.Node) (Kind, eval, error) {
	var kind Kind
	var x eval
	var err error
	division := false
	if n, ok := arg.(*ast.BinaryNode); ok && n.Operator == "/" {
		division = true
		kind, x, err = c.operator(n, name)
	} else {
		kind, x, err = c.expr(arg)
	}
	switch {
	case err != nil:
		return 0, nil, err
	case kind == Int && division:
		return Int, x, nil
	case kind != Float:
		return 0, nil, c.at(node, WrongKind, "put the division right inside, as in ceil(a / b): elsewhere a / b rounds down",
			"%s of %s", name, kind)
	}
	f := math.Floor
	if name == "ceil" {
		f = math.Ceil
	}
	return Int, func(env Env) (Value, error) {
		v, err := x(env)
		if err != nil {
			return v, err
		}
		n := f(v.Float)
		if !(math.Abs(n) < 1<<63) {
			return v, c.at(node, Arithmetic, "", "%s of %v does not fit 64 bits", name, v.Float)
		}
		return Value{Kind: Int, Int: int64(n)}, nil
	}, nil
}
