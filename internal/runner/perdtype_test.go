package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// TestPerDType has two kernels of one op: that of float32 is scaleModule, that of float64 doubles what the first one
// computes, and has another name.
func TestPerDType(t *testing.T) {
	dir := t.TempDir()
	wide := strings.NewReplacer("ld.global.f32 %f2, [%rd7];", "ld.global.f64 %d1, [%rd7];", "mul.rn.f32 %f3, %f2, %f1;",
		"add.rn.f64 %d2, %d1, %d1;", "st.global.f32 [%rd9], %f3;", "st.global.f64 [%rd9], %d2;", "shl.b64 %rd6, %rd5, 2;",
		"shl.b64 %rd6, %rd5, 3;", "shl.b64 %rd8, %rd4, 2;", "shl.b64 %rd8, %rd4, 3;", ".reg .f32 %f<4>;",
		".reg .f32 %f<4>;\n.reg .f64 %d<3>;").Replace(scaleModule)
	for name, text := range map[string]string{
		"k.float32.ptx": strings.ReplaceAll(scaleModule, "scale(", "scale_float32("),
		"k.float64.ptx": strings.ReplaceAll(wide, "scale(", "scale_float64("),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := scaleLaunch()
	l.PTX, l.Entry = "k.{dtype}.ptx", "scale_{dtype}"
	launch, err := NewLaunch(&l, scaleSchema(), nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := KernelSpec{Op: "scale", Launch: launch, Dir: dir, Timeout: time.Minute,
		DTypes: []dtype.DType{dtype.Float32, dtype.Float64}}
	r, err := NewKernel(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	call := scaleCall(5)
	for _, tt := range []struct {
		d    dtype.DType
		want float64
	}{{dtype.Float32, 15}, {dtype.Float64, 10}} {
		values := []float64{1, 2, 3, 4, 5}
		call.DType = tt.d
		call.Inputs[0].Tensor = tensor.FromFloat64s(tt.d, tensor.MustShape(5), values)
		call.Outputs[0].DType = tt.d
		call.Attrs["k"] = 3.0
		reply, err := r.Run(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.Outputs[0].Tensor.Float64s()[4]; got != tt.want || len(reply.Findings) > 0 {
			t.Errorf("%s: element 4 is %v with findings %v, want %v and none", tt.d, got, reply.Findings, tt.want)
		}
	}

	// A format that nobody announced is opened when it is asked for, and refused if it is not there.
	call.DType = dtype.Float16
	_, err = r.Run(t.Context(), call)
	wantFailure(t, err, verdict.Unsupported, "there is no file "+filepath.Join(dir, "k.float16.ptx"))

	// One that was announced is an error before anything runs.
	spec.DTypes = append(spec.DTypes, dtype.BFloat16)
	_, err = NewKernel(spec)
	if diag.CodeOf(err) != TargetMissing ||
		diag.HintOf(err) != "compile the kernel for bfloat16, or leave bfloat16 out of dtypes" {
		t.Errorf("without a kernel for bfloat16: %v, hint %q", err, diag.HintOf(err))
	}

	// Another name in braces is none.
	launch.PTX, launch.Entry = "k.{dtypes}.ptx", "scale"
	_, err = NewKernel(spec)
	if diag.CodeOf(err) != TargetMissing ||
		diag.HintOf(err) != "correct the path; it is relative to gpuemu.toml; {dtype} is all that is replaced in it" {
		t.Errorf("{dtypes}: %v, hint %q", err, diag.HintOf(err))
	}
}
