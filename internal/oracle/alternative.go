// This file implements alternatives: contracts that a candidate which fails its own may have been written to.

package oracle

import (
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// An Alternative is another contract for the same case: another precision, another variant of the formula, another
// mask. Outputs that fail the contract and keep an alternative tell what the kernel computes. It is never a reason to
// accept them.
type Alternative struct {
	// Name is stable, for machines: tf32, storage, window+1, …
	Name string
	// Matches completes "the output matches".
	Matches string
	// Advice says what to do: the line of gpuemu.toml that asks for this contract where it is intended, or what to
	// change in the kernel.
	Advice string
	// Repeated: one case does not show it, because faults of other kinds pass for it too often.
	Repeated bool

	attrs  opspec.Attrs        // attributes that differ
	ref    func(c *call) error // another formula; nil: that of the operator
	change func(c *call) bool  // changes inputs or arithmetic; false: not for this case
	widen  func(*compare.Want) // widens the bounds of an output
}

// Evaluate is Evaluate for the alternative. Both results are nil where it does not exist for the inputs.
func (a *Alternative) Evaluate(
	op *Op, inputs map[string]*tensor.Tensor, attrs opspec.Attrs, d dtype.DType,
) (map[string]*compare.Want, error) {
	all := make(opspec.Attrs, len(attrs))
	for _, m := range []opspec.Attrs{attrs, a.attrs} {
		for name, v := range m {
			all[name] = v
		}
	}
	c, err := newCall(op, inputs, all, d)
	if err != nil {
		return nil, err
	}
	if a.change != nil && !a.change(c) {
		return nil, nil
	}
	ref := op.ref
	if a.ref != nil {
		ref = a.ref
	}
	wants, err := c.evaluate(ref)
	if err == nil && a.widen != nil {
		for _, w := range wants {
			a.widen(w)
		}
	}
	return wants, err
}

// setting is the advice to name what differs in gpuemu.toml.
func setting(name, value string) string {
	return fmt.Sprintf("if intended, set attributes = { %s = %s } for this op in gpuemu.toml", name, value)
}

// Alternatives returns the contracts to try on outputs that fail a case of op with these attributes, which are
// complete, and this type.
func Alternatives(op *Op, attrs opspec.Attrs, d dtype.DType) []Alternative {
	var all []Alternative
	for _, f := range []func(*Op, opspec.Attrs, dtype.DType) []Alternative{
		precisions, flushes, formulas, variances, masks,
	} {
		all = append(all, f(op, attrs, d)...)
	}
	return all
}

// summing are the families whose entries accumulate sums.
var summing = []string{"reduce", "softmax", "norm", "matmul", "attention", "conv", "pool", "loss", "index"}

// precisions are narrower types of operands, intermediates and sums.
func precisions(op *Op, attrs opspec.Attrs, d dtype.DType) []Alternative {
	var all []Alternative
	compute := attrs.Str("compute")
	switch d {
	case dtype.Float32:
		if tf32Ops[op.Name] && compute != "tf32" {
			all = append(all, Alternative{
				Name: "tf32", Matches: "products in TF32", attrs: opspec.Attrs{"compute": "tf32"},
				Advice: setting("compute", `"tf32"`) + `; in Triton use tl.dot(..., input_precision="ieee"), in PyTorch ` +
					"torch.backends.cuda.matmul.allow_tf32 = False to keep float32",
			})
		}
	case dtype.Float16, dtype.BFloat16:
		if compute != "storage" {
			all = append(all, Alternative{
				Name: "storage", Matches: "intermediates rounded to " + d.String(), attrs: opspec.Attrs{"compute": "storage"},
				Advice: setting("compute", `"storage"`) + "; convert the inputs to float32 first to keep float32",
			})
		}
		if slices.Contains(summing, op.Family) {
			all = append(all, Alternative{
				Name: "narrow-accumulation", Matches: "sums accumulated in " + d.String(), Repeated: true,
				Advice: "accumulate in float32; no setting permits it, because the error grows with the length of the sum",
				change: func(c *call) bool {
					c.setCompute(d, "storage")
					c.accU, c.limit = d.UnitRoundoff(), c.over
					return true
				},
			})
		}
	case dtype.Float64:
		all = append(all, Alternative{
			Name: "float32-arithmetic", Matches: "float32 arithmetic on float64 inputs",
			Advice: "look for float32 constants, conversions and accumulators; no setting permits it",
			change: (*call).inFloat32,
		})
	}
	return all
}

// inFloat32 makes a call on float64 inputs one in float32.
func (c *call) inFloat32() bool {
	c.arith = newArith(dtype.Float32, c.attrs.Str("math"))
	for name, in := range c.in {
		if in.d == dtype.Float64 {
			in.x = slices.Clone(in.x)
			for i, v := range in.x {
				in.x[i] = float64(float32(v))
			}
			c.in[name] = in
		}
	}
	return true
}

// flushes are zeros for subnormal values, where the contract keeps them.
func flushes(_ *Op, attrs opspec.Attrs, d dtype.DType) []Alternative {
	if attrs.Str("math") == "ieee" && d != dtype.Float64 {
		return []Alternative{{
			Name: "gpu-math", Matches: "approximate functions or flushed subnormals", attrs: opspec.Attrs{"math": "gpu"},
			Advice: setting("math", `"gpu"`) + ", or compile without --use_fast_math and -ftz=true",
		}}
	}
	if d != dtype.Float16 && d != dtype.Float64 {
		return nil // subnormals of float32 and bfloat16 may be flushed already
	}
	return []Alternative{{
		Name: "flushed", Matches: "subnormal values of " + d.String() + " flushed to zero",
		Advice: "keep them, or set tolerances for this op in gpuemu.toml if values that small do not matter",
		change: func(c *call) bool { c.flush = math.Max(c.flush, d.SmallestNormal()); return true },
		widen:  flushable,
	}}
}

// flushable accepts zero for results that may be subnormal.
func flushable(w *compare.Want) {
	if !w.DType.IsFloat() || w.Bound == nil {
		return
	}
	least := w.DType.SmallestNormal()
	for i, v := range w.Value {
		if abs(v)-w.Bound[i] < least {
			w.Bound[i] = math.Max(w.Bound[i], abs(v))
		}
	}
}

// formulas are the two gelus.
func formulas(op *Op, attrs opspec.Attrs, _ dtype.DType) []Alternative {
	const tanh, erf = "the tanh approximation of gelu", "gelu with erf"
	named := func(schema string) string {
		return fmt.Sprintf("if intended, set schema = %q for this op in gpuemu.toml", schema)
	}
	switch op.Name {
	case "gelu":
		return []Alternative{{
			Name: "gelu-tanh", Matches: tanh, Advice: named("gelu_tanh"),
			ref: unary(func(c *call, x num) num { return c.geluTanh(x) }),
		}}
	case "gelu_tanh":
		return []Alternative{{
			Name: "gelu-erf", Matches: erf, Advice: named("gelu"),
			ref: unary(func(c *call, x num) num { return c.geluErf(x) }),
		}}
	case "geglu":
		return []Alternative{{
			Name: "gelu-tanh", Matches: tanh, Advice: "geglu is defined with erf; compare with a reference of your own " +
				"(reference in gpuemu.toml) if tanh is intended",
			ref: binary("gate", "up", func(c *call, g, u num) num { return c.mul(c.cast(c.geluTanh(g)), u) }),
		}}
	case "matmul_bias_act":
		switch attrs.Str("act") {
		case "gelu":
			return []Alternative{{
				Name: "gelu-tanh", Matches: tanh, Advice: setting("act", `"gelu_tanh"`), attrs: opspec.Attrs{"act": "gelu_tanh"},
			}}
		case "gelu_tanh":
			return []Alternative{{
				Name: "gelu-erf", Matches: erf, Advice: setting("act", `"gelu"`), attrs: opspec.Attrs{"act": "gelu"},
			}}
		}
	}
	return nil
}

// variances are the biased and the unbiased one.
func variances(op *Op, attrs opspec.Attrs, _ dtype.DType) []Alternative {
	switch op.Name {
	case "var":
		names := map[int]string{0: "the biased variance (divided by n)", 1: "the unbiased variance (divided by n-1)"}
		other := 1 - attrs.Int("correction")
		if names[other] == "" {
			return nil
		}
		return []Alternative{{
			Name: "variance", Matches: names[other], attrs: opspec.Attrs{"correction": int64(other)},
			Advice: setting("correction", fmt.Sprint(other)),
		}}
	case "layernorm", "groupnorm":
		return []Alternative{{
			Name: "variance", Matches: "a variance divided by n-1",
			Advice: "divide by n; torch.var and torch.std divide by n-1 unless correction=0 is given",
			change: func(c *call) bool {
				n := c.dim("H")
				if op.Name == "groupnorm" {
					n = c.dim("C") / max(1, c.attrs.Int("groups")) * c.dim("L")
				}
				return c.besselCorrected(n)
			},
		}}
	}
	return nil
}

// besselCorrected makes a normalization over n elements one with the unbiased variance. With b = (n-1)/n,
// 1/√(var/b + eps) = √b/√(var + b·eps): that is the biased one with another eps and another weight.
func (c *call) besselCorrected(n int) bool {
	if n < 2 {
		return false
	}
	b := float64(n-1) / float64(n)
	w := c.in["weight"]
	w.x = slices.Clone(w.x)
	for i := range w.x {
		w.x[i] *= math.Sqrt(b)
	}
	c.in["weight"] = w
	c.attrs["eps"] = float64(c.attrs.Float("eps") * b)
	return true
}

// masks are those of attention that are off by one or aligned to the other corner.
func masks(op *Op, attrs opspec.Attrs, _ dtype.DType) []Alternative {
	_, masked := attrs["window"]
	if op.Family != "attention" || !masked {
		return nil
	}
	var all []Alternative
	causal, window := attrs.Bool("causal"), attrs.Int("window")
	if causal || window > 0 {
		align := "top_left"
		if attrs.Str("align") == align {
			align = "bottom_right"
		}
		all = append(all, Alternative{
			Name: "mask-align", Matches: "a mask aligned " + align, attrs: opspec.Attrs{"align": align},
			Advice: setting("align", fmt.Sprintf("%q", align)),
		})
		for _, by := range []int{1, -1} {
			all = append(all, Alternative{
				Name: fmt.Sprintf("mask-shift%+d", by), Matches: fmt.Sprintf("a mask shifted by %+d", by),
				Advice: "a row sees the keys up to its own position, that one included: key <= query",
				change: func(c *call) bool { c.shift = by; return true },
			})
		}
	}
	if window > 0 {
		for _, w := range []int{window + 1, window - 1} {
			if w == 0 {
				continue // no window at all
			}
			all = append(all, Alternative{
				Name: fmt.Sprintf("window%+d", w-window), Matches: fmt.Sprintf("window = %d where the case has %d", w, window),
				attrs:  opspec.Attrs{"window": int64(w)},
				Advice: "window counts a row's own key; window_size = (w, 0) of flash-attn sees w+1 keys, so pass window - 1 there",
			})
		}
	}
	return all
}
