package gen

import (
	"math"
	"math/big"

	"gpuemu/internal/testkit/bigmath"
)

// exp: x = (k/128)·ln2 + r, |r| <= ln2/256, and 2^(j/128) for j = 0…127.
func (g *tables) exp() {
	const n = 128
	ln2n := quo(g.Ln2(), num(n))
	hi := num(toBits(ln2n, 53-18)) // k < 2^18, so k·hi is exact
	g.line("// Constants and tables of exp, exp2, expm1, pow.")
	g.constant("expInvLn2N", quo(num(n), g.Ln2()), "128/ln2")
	g.constant("expLn2HiN", hi, "ln2/128, its first 35 bits")
	g.constant("expLn2LoN", sub(ln2n, hi), "and the rest")
	bound := f64(ln2n) / 2 * 1.01
	g.polynomial("expC", "(e^r - 1 - r - r²/2)/r³ for |r| <= ln2/256·1.01", g.fit(func(r *big.Float) *big.Float {
		e := sub(g.Expm1(r), r)
		square := mul(r, r)
		return quo(sub(e, mul(square, num(0.5))), mul(square, r))
	}, -bound, bound, 3))
	g.polynomial("exp2C", "(2^r - 1)/r for |r| <= 1/256", g.fit(func(r *big.Float) *big.Float {
		return quo(g.Expm1(mul(r, g.Ln2())), r)
	}, -0x1p-8, 0x1p-8, 5))
	const small = 0x1p-4 * 1.001
	g.polynomial("expm1C", "(e^x - 1 - x - x²/2)/x³ for |x| <= 1/16", g.fit(func(x *big.Float) *big.Float {
		e := sub(g.Expm1(x), x)
		square := mul(x, x)
		return quo(sub(e, mul(square, num(0.5))), mul(square, x))
	}, -small, small, 8))
	g.line("\n// expTable[j] is 2^(j/128) = s·(1 + tail) with s a float64 whose bits, less j<<45, are scale.")
	g.line("var expTable = [%d]expEntry{", n)
	for j := range n {
		exact := g.Exp2(num(float64(j) / n))
		s := f64(exact)
		tail := quo(sub(exact, num(s)), num(s))
		g.line("{tail: %s, scale: %#016x},", hex(f64(tail)), math.Float64bits(s)-uint64(j)<<45)
	}
	g.line("}\n")
}

// log: x = 2^k·z, z in [0.708, 1.416), and 1/c of 21 bits with z/c = 1 + r, |r| < 2^-9·1.001.
func (g *tables) log() {
	const n, lsb = 256, -42
	const off = 0x3ff0000000000000 - 149<<44 - 1<<43 // 1 is the middle of the interval 149
	ln2hi := num(toMultiple(g.Ln2(), lsb))
	invLn2 := quo(num(1), g.Ln2())
	invLn2Hi := num(toBits(invLn2, 26))
	g.line("// Constants and tables of log, log2, log1p, pow.")
	g.line("const logOff = %#x // bits of the least z", uint64(off))
	g.constant("logLn2Hi", ln2hi, "a multiple of 2^-42, so that k·hi is exact")
	g.constant("logLn2Lo", sub(g.Ln2(), ln2hi), "and the rest")
	g.constant("logInvLn2Hi", invLn2Hi, "1/ln2, its first 26 bits")
	g.constant("logInvLn2Lo", sub(invLn2, invLn2Hi), "and the rest")
	const bound = 0x1p-9 * 1.001
	rest := func(r *big.Float) *big.Float {
		l := sub(g.Log1p(r), r)
		square := mul(r, r)
		return quo(add(l, mul(square, num(0.5))), mul(square, r))
	}
	g.polynomial("logC", "(log(1+r) - r + r²/2)/r³ for |r| <= 2^-9", g.fit(rest, -bound, bound, 4))
	g.polynomial("powC", "the same, more exactly", g.fit(rest, -bound, bound, 5))
	g.line("\n// logTable[i] has inv = 1/c of 21 bits, log(c) = ln + lnLo with ln a multiple of 2^-42, and log2(c) alike.")
	g.line("var logTable = [%d]logEntry{", n)
	for i := range n {
		mid := math.Float64frombits(off + uint64(i)<<44 + 1<<43)
		inv := toBits(quo(num(1), num(mid)), 21)
		ln := g.Log(num(inv))
		ln.Neg(ln)
		ln2 := quo(ln, g.Ln2())
		hi, hi2 := num(toMultiple(ln, lsb)), num(toMultiple(ln2, lsb))
		g.line("{%s, %s, %s, %s, %s},", hex(inv), hex(f64(hi)), hex(f64(sub(ln, hi))),
			hex(f64(hi2)), hex(f64(sub(ln2, hi2))))
	}
	g.line("}\n")
}

// circular: x = n·π/2 + r, |r| <= π/4.
func (g *tables) circular() {
	half := quo(g.Pi(), num(2))
	p1 := num(toBits(half, 33))
	rest := sub(half, p1)
	p2 := num(toBits(rest, 33))
	short := num(toBits(half, 21))
	g.line("// Constants and tables of sin, cos.")
	g.constant("twoOverPi", quo(num(1), half), "2/π")
	g.constant("piHalf1", p1, "π/2, its first 33 bits: n·piHalf1 is exact for n < 2^20")
	g.constant("piHalf2", p2, "the next 33 bits")
	g.constant("piHalf3", sub(rest, p2), "and the rest")
	g.constant("piHalf21", short, "π/2, its first 21 bits")
	g.constant("piHalfRest", sub(half, short), "and the rest")
	g.constant("piHalf", half, "π/2")
	const bound = 0x1p-12
	g.polynomial("sinC", "(sin(d) - d)/d³ in d², for |d| <= 1/64", g.fit(func(t *big.Float) *big.Float {
		x := g.Sqrt(t)
		return quo(sub(g.Sin(x), x), mul(x, t))
	}, 0, bound, 3))
	g.polynomial("cosC", "(cos(d) - 1 + d²/2)/d⁴ in d², for |d| <= 1/64", g.fit(func(t *big.Float) *big.Float {
		c := sub(g.Cos(g.Sqrt(t)), num(1))
		return quo(add(c, quo(t, num(2))), mul(t, t))
	}, 0, bound, 2))
	g.line("\n// circleTable[i] is the sine and the cosine of i/32, each in two parts, and the cosine less 1.")
	g.line("var circleTable = [32]circleEntry{")
	for i := range 32 {
		x := num(float64(i) / 32)
		sin, cos := g.Sin(x), g.Cos(x)
		s, c := f64(sin), f64(cos)
		g.line("{%s, %s, %s, %s, %s},", hex(s), hex(f64(sub(sin, num(s)))), hex(c), hex(f64(sub(cos, num(c)))),
			hex(f64(sub(cos, num(1)))))
	}
	g.line("}")
	const words = 21 // 64 zeros, then bits up to 2^-(971+192) and some more
	wide := new(big.Float).SetPrec(64 * (words + 2))
	wide.Quo(wide.SetInt64(2), bigmath.New(64*(words+2)).Pi())
	all, _ := wide.SetMantExp(wide, 64*(words-1)).Int(nil)
	g.line("\n// twoOverPiBits are the binary digits of 2/π, after 64 zeros that stand before the point.")
	g.line("var twoOverPiBits = [%d]uint64{", words)
	mask := new(big.Int).SetUint64(math.MaxUint64)
	for i := range words {
		w := new(big.Int).Rsh(all, uint(64*(words-1-i)))
		g.line("%#016x,", w.And(w, mask).Uint64())
	}
	g.line("}\n")
}

// tanh: x + x³·P(x²) up to tanhPoly.
func (g *tables) tanh() {
	const limit = 0.25
	g.line("// Constants of tanh.")
	g.line("const tanhSmall = %s // up to here the polynomial", hex(limit))
	g.polynomial("tanhC", "(tanh(x) - x)/x³ in x², for |x| <= 1/4", g.fit(func(t *big.Float) *big.Float {
		x := g.Sqrt(t)
		return quo(sub(g.Tanh(x), x), mul(x, t))
	}, 0, limit*limit*1.001, 8))
	g.line("")
}

// erf: 9/8·x + x·P(x²) for |x| < 1/4, then erf(c + d) - erf(c) as a polynomial in d around c = i/32.
func (g *tables) erf() {
	const first, last, terms = 8, 192, 7
	g.line("// Constants and tables of erf.")
	g.polynomial("erfC", "erf(x)/x - 9/8 in x², for |x| <= 1/4", g.fit(func(t *big.Float) *big.Float {
		x := g.Sqrt(t)
		return sub(quo(g.Erf(x), x), num(1.125))
	}, 0, 0.0625*1.001, 7))
	g.line("\n// erfTable[i-8] has erf(c) = hi + lo, c = i/32, and (erf(c+d) - erf(c))/d for |d| <= 1/64.")
	g.line("var erfTable = [%d]erfEntry{", last-first+1)
	for i := first; i <= last; i++ {
		c := num(float64(i) / 32)
		exact := g.Erf(c)
		coef := g.fit(func(d *big.Float) *big.Float {
			return quo(sub(g.Erf(add(c, d)), exact), d)
		}, -0x1p-6, 0x1p-6, terms)
		hi := f64(exact)
		g.entry(hi, f64(sub(exact, num(hi))), coef)
	}
	g.line("}\n")
}

// entry writes one line of a table of local polynomials.
func (g *tables) entry(hi, lo float64, coef []*big.Float) {
	g.line("{hi: %s, lo: %s,\nc: [%d]float64{", hex(hi), hex(lo), len(coef))
	for i, c := range coef {
		if i > 0 {
			g.WriteString(", ")
		}
		g.WriteString(hex(f64(c)))
	}
	g.line("}},")
}

// erfc: e^(x²)·erfc(x) around the middle c of each of 16 intervals per power of two, from 1/2 to 28.
func (g *tables) erfc() {
	const first, last, terms = 0x3fe0, 0x403c, 9
	g.line("// erfcTable: e^(x²)·erfc(x) around c, the middle of the numbers that agree in the first 16 bits:")
	g.line("// hi + lo, hi of 26 bits, at c, and the difference to it divided by x-c.")
	g.line("var erfcTable = [%d]erfcEntry{", last-first)
	scaled := func(x *big.Float) *big.Float { return mul(g.Erfc(x), g.Exp(mul(x, x))) }
	for i := first; i < last; i++ {
		lo, hi := math.Float64frombits(uint64(i)<<48), math.Float64frombits(uint64(i+1)<<48)
		c := num(lo + (hi-lo)/2)
		exact := scaled(c)
		half := (hi - lo) / 2
		coef := g.fit(func(d *big.Float) *big.Float {
			return quo(sub(scaled(add(c, d)), exact), d)
		}, -half, half, terms)
		short := toBits(exact, 26)
		g.entry(short, f64(sub(exact, num(short))), coef)
	}
	g.line("}")
}
