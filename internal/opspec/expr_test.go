package opspec

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

func testNames(name string) (int64, bool) {
	v, ok := map[string]int64{
		"M": 7, "N": 3, "zero": 0, "one": 1, "big": math.MaxInt64, "small": math.MinInt64, "H": 5, "KH": 3,
	}[name]
	return v, ok
}

func TestExpr(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want int64
		code diag.Code // "": no error
		text string    // part of the error
	}{
		{src: "1", want: 1},
		{src: " 12 ", want: 12},
		{src: "M", want: 7},
		{src: "M+N*2", want: 13},
		{src: "(M+N)*2", want: 20},
		{src: "M-N-1", want: 3},
		{src: "M-(N-1)", want: 5},
		{src: "100/7/2", want: 7},
		{src: "7%4*2", want: 6},
		{src: "-M+10", want: 3},
		{src: "--M", want: 7},
		{src: "2*-N", want: -6},
		{src: "min(M,N)", want: 3},
		{src: "max(M, N+10)", want: 13},
		{src: "max(min(M,2),min(N,9))", want: 3},
		{src: "(H+2*1-KH)/2+1", want: 3},
		{src: "(2-3)/2", want: -1}, // rounds down, unlike Go
		{src: "(0-3)%2", want: 1},
		{src: "3%(0-2)", want: -1},
		{src: "small%(0-1)", want: 0},
		{src: "min", code: ExprUnknownName, text: `column 1: no dimension or integer attribute "min"`},
		{src: "M+X", code: ExprUnknownName, text: `expression "M+X", column 3: no dimension or integer attribute "X"`},
		{src: "big+1", code: ExprArithmetic, text: "column 4: the result does not fit 64 bits"},
		{src: "small-1", code: ExprArithmetic},
		{src: "big*2", code: ExprArithmetic},
		{src: "small*-1", code: ExprArithmetic},
		{src: "-1*small", code: ExprArithmetic},
		{src: "small/-1", code: ExprArithmetic},
		{src: "-small", code: ExprArithmetic},
		{src: "1/zero", code: ExprArithmetic, text: "column 2: division by zero"},
		{src: "1%(N-3)", code: ExprArithmetic, text: "division by zero"},
		{src: "", code: ExprSyntax, text: "got end of text, want a number, a name or ("},
		{src: "M+", code: ExprSyntax, text: "column 3: got end of text"},
		{src: "M N", code: ExprSyntax, text: `column 3: unexpected "N"`},
		{src: "M==N", code: ExprSyntax, text: `column 2: unexpected "=="`},
		{src: "(M", code: ExprSyntax, text: `got end of text, want ")"`},
		{src: "M)", code: ExprSyntax, text: `unexpected ")"`},
		{src: "min(M)", code: ExprSyntax, text: `got ")", want ","`},
		{src: "gcd(M,N)", code: ExprSyntax, text: `column 1: unknown function "gcd", want min or max`},
		{src: "M & N", code: ExprSyntax, text: `column 3: character "&" is not allowed`},
		{src: "99999999999999999999", code: ExprSyntax, text: "does not fit 64 bits"},
		{src: strings.Repeat("(", 100) + "1", code: ExprSyntax, text: "nested deeper than 32"},
		{src: strings.Repeat("-", 100) + "1", code: ExprSyntax, text: "nested deeper than 32"},
		{src: strings.Repeat("1+", 300) + "1", code: ExprSyntax, text: "601 bytes, limit 512"},
	} {
		e, err := ParseExpr(tt.src)
		var got int64
		if err == nil {
			got, err = e.Eval(testNames)
		}
		if diag.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("Eval(%q) = %v, want code %q with %q", tt.src, err, tt.code, tt.text)
		}
		if err == nil && got != tt.want {
			t.Errorf("Eval(%q) = %d, want %d", tt.src, got, tt.want)
		}
	}
}

func TestRelation(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want bool
	}{
		{"M != N", true}, {"M == N", false}, {"M == 7", true}, {"M % 8 == 7", true}, {"N < M", true}, {"M < M", false},
		{"M <= 7", true}, {"M > 7", false}, {"M >= 7", true}, {"M != 7", false}, {"min(M,N)*2 <= max(M,N)", true},
	} {
		r, err := ParseRelation(tt.src)
		if err != nil {
			t.Errorf("ParseRelation(%q) = %v", tt.src, err)
			continue
		}
		if got, err := r.Holds(testNames); got != tt.want || err != nil {
			t.Errorf("Holds(%q) = %v, %v, want %v", tt.src, got, err, tt.want)
		}
	}
	for src, text := range map[string]string{
		"M":            "got end of text, want one of == != < <= > >=",
		"M = N":        `column 3: got "=", want "=="`,
		"M ! N":        `got "!", want "!="`,
		"M == N == 3":  `column 8: unexpected "=="`,
		"M == ":        "column 6: got end of text",
		"== 3":         `got "==", want a number, a name or (`,
		"M <> 3":       `got ">", want a number`,
		"M == 1 && 2 ": `character "&" is not allowed`,
	} {
		if _, err := ParseRelation(src); diag.CodeOf(err) != ExprSyntax || !strings.Contains(err.Error(), text) {
			t.Errorf("ParseRelation(%q) = %v, want %q", src, err, text)
		}
	}
	r, err := ParseRelation("M*N + M == K/N")
	if err != nil || strings.Join(r.Names(), " ") != "M N K" {
		t.Errorf("Names = %v, %v, want M N K", r.Names(), err)
	}
}

func TestSolve(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want int64
		x    int64
		ok   bool
	}{
		{"x", 5, 5, true}, {"2*x", 10, 5, true}, {"x*N", 9, 3, true}, {"2*x", 11, 0, false}, {"x+M", 10, 3, true},
		{"M-x", 2, 5, true}, {"x-M", 2, 9, true}, {"-(x+1)", -4, 3, true}, {"zero*x", 0, 0, false}, {"x/2", 3, 0, false},
		{"x+x", 4, 0, false}, {"min(x,9)", 3, 0, false}, {"x+unknown", 3, 0, false}, {"3*(2*x+1)", 21, 3, true},
		{"M", 7, 0, false}, {"x*(0-1)", math.MinInt64, 0, false}, {"x+1/zero", 1, 0, false},
	} {
		e, err := ParseExpr(tt.src)
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := e.solve("x", tt.want, testNames); x != tt.x && ok || ok != tt.ok {
			t.Errorf("solve(%q = %d) = %d, %v, want %d, %v", tt.src, tt.want, x, ok, tt.x, tt.ok)
		}
	}
}

// bigEval evaluates in arbitrary precision, from the description in Expr's comment.
func bigEval(e *Expr, lookup Lookup) (*big.Int, bool) {
	vals := make([]*big.Int, len(e.nodes))
	fits := true
	for i, n := range e.nodes {
		v := new(big.Int)
		switch n.op {
		case opNumber:
			v.SetInt64(n.num)
		case opName:
			x, ok := lookup(n.name)
			if !ok {
				return nil, false
			}
			v.SetInt64(x)
		case opNeg:
			v.Neg(vals[n.a])
		case opAdd:
			v.Add(vals[n.a], vals[n.b])
		case opSub:
			v.Sub(vals[n.a], vals[n.b])
		case opMul:
			v.Mul(vals[n.a], vals[n.b])
		case opDiv, opMod:
			if vals[n.b].Sign() == 0 {
				return nil, false
			}
			// floor division: a = q*b + m with m of the sign of b
			q, m := new(big.Int).DivMod(vals[n.a], vals[n.b], new(big.Int))
			if m.Sign() != 0 && vals[n.b].Sign() < 0 {
				q.Sub(q, big.NewInt(1))
				m.Add(m, vals[n.b])
			}
			v = q
			if n.op == opMod {
				v = m
			}
		case opMin, opMax:
			v.Set(vals[n.a])
			if (vals[n.b].Cmp(v) < 0) == (n.op == opMin) {
				v.Set(vals[n.b])
			}
		}
		if !v.IsInt64() {
			fits = false
		}
		vals[i] = v
	}
	return vals[len(vals)-1], fits
}

func FuzzExpr(f *testing.F) {
	for _, s := range []string{"1", "M+N*2", "(H+2*pad-KH)/stride+1", "min(M,max(N,3))%4", "-small", "big*big", "M == N%3",
		"((((((", "1/zero", "a*-b/-c%-d", "9223372036854775807+M", "-9223372036854775807-M-M", "M<=N"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if r, err := ParseRelation(src); err == nil {
			if _, err := r.Holds(testNames); err != nil && diag.CodeOf(err) == "" {
				t.Errorf("Holds(%q): error without a code: %v", src, err)
			}
			return
		}
		e, err := ParseExpr(src)
		if err != nil {
			var d *diag.Error
			if !errors.As(err, &d) || d.Code != ExprSyntax || !strings.Contains(d.Msg, ", column ") {
				t.Errorf("ParseExpr(%q) = %v, want a syntax error with a column", src, err)
			}
			return
		}
		got, err := e.Eval(testNames)
		want, fits := bigEval(e, testNames)
		switch {
		case err == nil && (!fits || want.Cmp(big.NewInt(got)) != 0):
			t.Errorf("Eval(%q) = %d, want %v", src, got, want)
		case err != nil && fits:
			t.Errorf("Eval(%q) = %v, want %v", src, err, want)
		}
		// What solve finds is a solution.
		if x, ok := e.solve("M", 21, testNames); ok {
			v, err := e.Eval(func(n string) (int64, bool) {
				if n == "M" {
					return x, true
				}
				return testNames(n)
			})
			if err != nil || v != 21 {
				t.Errorf("solve(%q = 21) = %s, which gives %d, %v", src, strconv.FormatInt(x, 10), v, err)
			}
		}
	})
}
