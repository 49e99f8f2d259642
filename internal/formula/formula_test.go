package formula

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

var testNames = map[string]Kind{"n": Int, "rows": Int, "zero": Int, "huge": Int, "eps": Float, "causal": Bool,
	"mode": Text, "x": Tensor, "ceil_n": Int}

func testEnv(name string) Value {
	switch name {
	case "n":
		return Value{Kind: Int, Int: 1000}
	case "rows":
		return Value{Kind: Int, Int: 7}
	case "zero":
		return Value{Kind: Int}
	case "huge":
		return Value{Kind: Int, Int: math.MaxInt64}
	case "eps":
		return Value{Kind: Float, Float: 0.25}
	case "causal":
		return truth(true)
	case "mode":
		return Value{Kind: Text, Text: "tanh"}
	case "x":
		return Value{Kind: Tensor, Tensor: &Memory{Name: "x", DType: dtype.Float16, Shape: []int{3, 5}, Strides: []int{8, 1}}}
	}
	panic(name)
}

func evaluate(text string) (Value, error) {
	f, err := Parse(text)
	if err != nil {
		return Value{}, err
	}
	p, err := f.Compile(testNames)
	if err != nil {
		return Value{}, err
	}
	v, err := p.Eval(testEnv)
	if err == nil && v.Kind != p.Kind {
		return v, fmt.Errorf("the value is %s, announced was %s", v.Kind, p.Kind)
	}
	return v, err
}

func show(v Value) string {
	switch v.Kind {
	case Float:
		return fmt.Sprintf("%gf", v.Float)
	case Bool:
		return fmt.Sprint(v.Int != 0)
	case Text:
		return v.Text
	case Tensor:
		return v.Tensor.Name
	}
	return fmt.Sprint(v.Int)
}

func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"256": "256", "n": "1000", "x": "x", "eps": "0.25f", "mode": "tanh", "-n + 1": "-999", "+n": "1000",
		// One division in three spellings, and where its rounding matters.
		"ceil(n / 256)": "4", "(n + 255) / 256": "4", "cdiv(n, 256)": "4", "n / 256": "3", "floor(n / 256)": "3",
		"-n / 256": "-4", "-n % 256": "24", "n % -256": "-24", "ceil(-n / 256)": "-3", "ceil(n / 250)": "4",
		"(n + 255) / 256 * rows": "28", "n - rows - 1": "992", "n / 10 / 10": "10",
		"n / 256.0": "3.90625f", "ceil(n / 256.0)": "4", "floor(eps)": "0", "ceil(eps)": "1", "n * eps": "250f",
		"eps - 1": "-0.75f", "eps + 1": "1.25f", "-eps": "-0.25f", "-inf": "-Inff", "abs(-n)": "1000", "abs(n)": "1000",
		"abs(-eps)": "0.25f", "sqrt(eps)": "0.5f", "sqrt(16)": "4f", "min(n, rows)": "7", "max(n, rows, 2000)": "2000",
		"min(n, eps)": "0.25f", "max(n, eps)": "1000f", "min(huge - 1, huge)": "9223372036854775806",
		"next_pow2(n)": "1024", "next_pow2(1024)": "1024", "next_pow2(0)": "1", "next_pow2(3)": "4",
		"x.numel": "15", "x.ndim": "2", "x.itemsize": "2", "x.shape[0]": "3", "x.shape[-1]": "5", "x.strides[0]": "8",
		"x.strides[rows - 6]": "1", "x.shape[0] * x.shape[1]": "15",
		"causal ? 1 : 2": "1", "!causal": "false", "not causal": "false", "causal && n > 1": "true",
		"causal and n > 1000": "false", "n < 1 || causal": "true", "n >= 1000 && n <= 1000": "true", "n != rows": "true",
		`mode == "tanh"`: "true", `mode != "tanh"`: "false", "eps < 1": "true", "n == 1000.0": "true",
		"causal == true": "true", "n > 0 ? n / rows : 1 / zero": "142", "zero == 0 || n / zero > 1": "true",
		"float32(eps)": "0.25f", "int32(n)": "1000", "bool(causal)": "true", "float16(1.0 / n)": "0.001f",
	} {
		v, err := evaluate(text)
		if got := show(v); err != nil || got != want {
			t.Errorf("%s = %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestFaults: what is wrong with a text is said with its column, and before anything is computed where possible.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "in \"\": unexpected token EOF [formula-syntax]",
		"ceil(n /":                "formula-syntax",
		"n // 256":                "3: in \"n // 256\": there is no operator // [formula-syntax]",
		"n /* 256 */":             "3: in \"n /* 256 */\": there is no operator /* [formula-syntax]",
		"m + 1":                   "1: in \"m + 1\": unknown name \"m\" [formula-name]",
		"m.numel":                 "unknown name \"m\"",
		"x.size":                  "a tensor has no .size",
		"n.shape[0]":              "n is a whole number",
		"x.numel[0]":              "only shape and strides have an index",
		"(n + 1)[0]":              "only shape and strides have an index",
		"x[0]":                    "only shape and strides have an index",
		"x.shape[2]":              "x has 2 axes, there is no axis 2",
		"x.shape[-3]":             "x has 2 axes, there is no axis -3",
		"x.shape[eps]":            "an index is a whole number, not a number with a fraction",
		"x.shape":                 "a tensor has no .shape",
		"n / zero":                "3: in \"n / zero\": division by zero [formula-arithmetic]",
		"n % zero":                "division by zero",
		"ceil(n / zero)":          "division by zero",
		"huge + 1":                "the result does not fit 64 bits",
		"huge * 2":                "the result does not fit 64 bits",
		"-huge - 2":               "the result does not fit 64 bits",
		"(-huge - 1) * -1":        "the result does not fit 64 bits",
		"(-huge - 1) / -1":        "the result does not fit 64 bits",
		"-(-huge - 1)":            "the result does not fit 64 bits",
		"abs(-huge - 1)":          "the result does not fit 64 bits",
		"next_pow2(huge)":         "the result does not fit 64 bits",
		"ceil(1e30)":              "ceil of 1e+30 does not fit 64 bits",
		"floor(0.0 / 0.0)":        "floor of NaN does not fit 64 bits",
		"ceil(n)":                 "ceil of a whole number",
		"ceil(n / 256 * 2)":       "ceil of a whole number",
		"float32(1 / n)":          "a / b of whole numbers rounds down",
		"float32(eps) * 2":        "no function \"float32\" here",
		"scratch(eps)":            "scratch of a number with a fraction",
		"zeros(x)":                "zeros of a tensor",
		"scratch(4) + 1":          "no function \"scratch\" here",
		"float32(eps, 1)":         "float32 takes one value, not 2",
		"eps % 2":                 "% between a number with a fraction and a whole number",
		"x + 1":                   "+ between a tensor and a whole number",
		"mode < \"b\"":            "< between a text and a text",
		"n ** 2":                  "** between a whole number and a whole number",
		"1..n":                    ".. between a whole number and a whole number",
		"n && causal":             "&& between a whole number and true or false",
		"!n":                      "! of a whole number",
		"n ? 1 : 2":               "a choice by a whole number",
		"causal ? 1 : 0.5":        "a choice between a whole number and a number with a fraction",
		"causal ? x : x":          "a choice between a tensor and a tensor",
		"cdiv(n)":                 "cdiv of 1 values",
		"cdiv(n, 2.0)":            "cdiv of a number with a fraction",
		"min(n)":                  "min of 1 values",
		"min(n, mode)":            "min of a text",
		"len(x)":                  "no function \"len\" here",
		"map(1..9, # * 2)":        "no function \"map\" here",
		"[1, 2]":                  "this is more than a launch needs",
		"{a: 1}":                  "this is more than a launch needs",
		"let a = n; a * a":        "this is more than a launch needs",
		"x?.numel":                "this is more than a launch needs",
		"n; n":                    "this is more than a launch needs",
		"n\n+ 1":                  "it is not a line of text",
		"99999999999999999999":    "formula-syntax",
		strings.Repeat("n+", 300): "an expression of 600 bytes, at most 512 are read",
	} {
		_, err := evaluate(text)
		if err == nil || !strings.Contains(placed(err), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// placed shows the column, which an error without a line keeps to itself.
func placed(err error) string {
	if e, ok := err.(*diag.Error); ok {
		return fmt.Sprintf("%d: %s", e.Pos.Col, err)
	}
	return err.Error()
}

func TestPlace(t *testing.T) {
	_, err := Parse("n // 2")
	got := Place(err, diag.Pos{File: "gpuemu.toml", Line: 7, Col: 10})
	if want := `gpuemu.toml:7:12: in "n // 2": there is no operator // [formula-syntax]`; got.Error() != want {
		t.Errorf("Place = %v, want %s", got, want)
	}
}

// TestProgram: what a launch asks of a formula before it is computed.
func TestProgram(t *testing.T) {
	for text, want := range map[string]string{
		"scratch(4 * n)": "1 scratch  []", "zeros(8)": "1 zeros  []",
		"x": "5 invalid x []", "float32(eps)": "2 float32  []", "x.strides[0] + 1": "1 invalid  [x]",
		"int64(x.shape[0])": "1 int64  []", "bf16(eps)": "2 bfloat16  []",
	} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Compile(testNames)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d %s %s %v", p.Kind, cmp.Or(p.Memory, p.DType.String()), p.Name, p.Strides); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestNestedCostsNothing: a text of the largest length is compiled and computed at once, whatever its form.
func TestNestedCostsNothing(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("ceil(", 50) + "n" + strings.Repeat(" / 2)", 50),
		strings.Repeat("(", 250) + "n" + strings.Repeat(")", 250),
		strings.Repeat("-", 500) + "n",
		strings.Repeat("causal ? ", 40) + "1" + strings.Repeat(": 1", 40),
	} {
		if _, err := evaluate(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWholeArithmetic compares with numbers that have no limit.
func TestWholeArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	edges := []int64{0, 1, -1, 2, -2, 255, 256, math.MaxInt32, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}
	draw := func() int64 {
		if r.IntN(2) == 0 {
			return edges[r.IntN(len(edges))]
		}
		return int64(r.Uint64()) >> r.IntN(64)
	}
	names := map[string]Kind{"a": Int, "b": Int}
	for range 20000 {
		a, b := draw(), draw()
		for _, op := range []string{"a + b", "a - b", "a * b", "a / b", "a % b", "ceil(a / b)"} {
			f, err := Parse(op)
			if err != nil {
				t.Fatal(err)
			}
			p, err := f.Compile(names)
			if err != nil {
				t.Fatal(err)
			}
			v, err := p.Eval(func(name string) Value {
				return Value{Kind: Int, Int: map[string]int64{"a": a, "b": b}[name]}
			})
			want, ok := exact(op, a, b)
			switch {
			case (err == nil) != ok:
				t.Fatalf("%s of %d and %d: %v, want an error: %v", op, a, b, err, !ok)
			case ok && v.Int != want:
				t.Fatalf("%s of %d and %d = %d, want %d", op, a, b, v.Int, want)
			}
		}
	}
}

// exact is the same by package big, whose Euclidean division is corrected to one that rounds down.
func exact(op string, a, b int64) (int64, bool) {
	x, y, z := big.NewInt(a), big.NewInt(b), new(big.Int)
	switch op {
	case "a + b":
		z.Add(x, y)
	case "a - b":
		z.Sub(x, y)
	case "a * b":
		z.Mul(x, y)
	default:
		if b == 0 {
			return 0, false
		}
		q := new(big.Rat).SetFrac(x, y)
		floor := new(big.Int).Div(q.Num(), q.Denom()) // the denominator is positive
		switch op {
		case "a / b":
			z = floor
		case "a % b":
			z.Sub(x, new(big.Int).Mul(floor, y))
		default:
			z = floor
			if !q.IsInt() {
				z.Add(floor, big.NewInt(1))
			}
		}
	}
	return z.Int64(), z.IsInt64()
}

func FuzzFormula(f *testing.F) {
	for _, text := range []string{"ceil(n / 256)", "x.shape[0]", "float32(eps)", "causal ? 1 : 2", "1..9", "map(x, #)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := evaluate(text)
		if err == nil && v.Kind == KindUnset {
			t.Errorf("%q gives nothing", text)
		}
	})
}

func BenchmarkLaunch(b *testing.B) {
	f, err := Parse("ceil(n / 256)")
	if err != nil {
		b.Fatal(err)
	}
	p, err := f.Compile(testNames)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("parse and compile", func(b *testing.B) {
		for b.Loop() {
			f, _ := Parse("ceil(n / 256)")
			_, _ = f.Compile(testNames)
		}
	})
	b.Run("compute", func(b *testing.B) {
		for b.Loop() {
			_, _ = p.Eval(testEnv)
		}
	})
}
