package ptxvm

import (
	"errors"
	"math"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// TestTritonIsSilent runs kernels that Triton made, with masks that leave lanes without values, on outputs that have
// none at first. Nothing of that is a finding. Outputs of two bytes are bfloat16; the values of inputs do not matter.
func TestTritonIsSilent(t *testing.T) {
	const rows, cols = 3, 112 // Triton has made these kernels for multiples of 16
	input := func(n int) Arg { return Arg{Name: "in", Buffer: floatBytes(mixed(n)), Role: In} }
	sized := func(n, size int) Arg {
		return Arg{Name: "out", Buffer: make([]byte, size*n), Role: Out, Uninitialised: true, Element: size}
	}
	output := func(n int) Arg { return sized(n, 4) }
	number := func(n int) Arg { return Arg{Value: word(n)} }
	scratch := Arg{Value: make([]byte, 8)}
	small := Arg{Value: word(int(math.Float32bits(1e-5)))}
	ran := 0
	for _, k := range []struct {
		file, kernel string
		grid         int
		args         []Arg
	}{
		{"add-sm80", "add", 1, []Arg{input(1000), input(1000), output(1000), number(1000)}},
		{"softmax-sm80", "softmax", rows, []Arg{input(rows * cols), output(rows * cols), number(cols), number(cols)}},
		{"softmax-sm90", "softmax", rows, []Arg{input(rows * cols), output(rows * cols), number(cols), number(cols)}},
		{"rmsnorm-sm80", "rmsnorm", rows, []Arg{input(rows * cols), input(cols), sized(rows*cols, 2), number(cols), small}},
		{"layernorm-sm80", "layernorm", rows, []Arg{input(rows * cols), input(cols), input(cols), output(rows * cols),
			output(rows), output(rows), number(cols), small}},
		{"argmax-sm80", "argmax", rows, []Arg{input(rows * cols), output(rows), output(rows), number(cols)}},
		{"silu_mul-sm80", "silu_mul", 1, []Arg{input(1008), input(1008), sized(1008, 2), number(1008)}},
	} {
		f, err := ptx.ReadFile("../../testdata/ptx/triton36/" + k.file + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(f, k.kernel)
		var d *diag.Error
		if errors.As(err, &d) && d.Code == Unsupported {
			t.Logf("%s: %v", k.file, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		ran++
		r := run(t, p, &Launch{Grid: line(k.grid), Block: line(128), DynamicShared: 1 << 14, MaxSteps: 1 << 22,
			Args: append(k.args, scratch, scratch)})
		if len(r.Findings) > 0 {
			t.Errorf("%s: %s", k.file, list(r))
		}
	}
	if ran < 3 {
		t.Errorf("only %d kernels were executed", ran)
	}
}
