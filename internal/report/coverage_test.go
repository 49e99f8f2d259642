package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// profiles are the profiles of results.
func profiles(each func(func(*verdict.Result) error) error) func(func(*verdict.Profile) error) error {
	return func(yield func(*verdict.Profile) error) error {
		return each(func(r *verdict.Result) error {
			p := r.Profile()
			return yield(&p)
		})
	}
}

func covered(t *testing.T) *Coverage {
	t.Helper()
	kernel := verdict.Result{Op: "flash", Verdict: verdict.Pass, Case: "kernel flash", Candidate: "flash.ptx"}
	d := documentOf(passing(0, "softmax", "float32", 0), passing(1, "softmax", "float16", 0),
		wrong(15, "softmax", "float32", ""), notRun(2, "matmul", "bfloat16"), kernel)
	c, err := Cover(profiles(d.Source().Each), []CoverageOp{
		{Name: "softmax", Candidate: "kernels/softmax.py:run", Reference: "builtin:softmax",
			DTypes: []string{"float32", "float16", "bfloat16"}, Layouts: []string{"contiguous", "strided"},
			Values: []string{"uniform", "normal"}, Tiles: map[string]int{"N": 16}},
		{Name: "matmul", Candidate: "kernels/matmul.py:run", Reference: "ref/matmul.py", DTypes: []string{"bfloat16"}},
		{Name: "relu", Candidate: "worker:./relu", Reference: "ref/matmul.py"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCoverageGolden(t *testing.T) {
	c := covered(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return c.Text(b) }, "json": func(b *bytes.Buffer) error { return c.JSON(b) },
		"codecov": func(b *bytes.Buffer) error { return c.Codecov(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, "testdata/coverage."+name, b.Bytes())
	}
}

func TestCoverageCountsExecutedCasesOnly(t *testing.T) {
	c := covered(t)
	if m := &c.Ops[1]; m.Cases != 0 || m.NotRun != 1 || len(m.DTypes.Seen) != 0 ||
		!reflect.DeepEqual(m.DTypes.Unseen, []string{"bfloat16"}) {
		t.Errorf("matmul: %+v", m)
	}
	if !reflect.DeepEqual(c.Unconfigured, []string{"flash"}) {
		t.Errorf("unconfigured: %q", c.Unconfigured)
	}
	var b bytes.Buffer
	if err := c.Codecov(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Coverage map[string]map[string]any `json:"coverage"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{"kernels/softmax.py": {"1": "2/3"}, "kernels/matmul.py": {"1": 0.0},
		"ref/matmul.py": {"1": 0.0}, "flash.ptx": {"1": 1.0}}
	if !reflect.DeepEqual(got.Coverage, want) {
		t.Errorf("codecov: %v, want %v", got.Coverage, want)
	}
}

func TestShapeClasses(t *testing.T) {
	for n, want := range map[int]string{0: ShapeEmpty, 1: ShapeOne, 2: ShapePowerOfTwo, 3: ShapeOther,
		64: ShapePowerOfTwo, 65: ShapeOther} {
		if got := sizeClass(n); got != want {
			t.Errorf("sizeClass(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{15: ShapeTileMinus, 16: ShapeTile, 17: ShapeTilePlus, 20: ShapePartial,
		31: ShapeTileMinus, 32: ShapeTile} {
		if got := tileClass(n, 16); got != want {
			t.Errorf("tileClass(%d, 16) = %s, want %s", n, got, want)
		}
	}
}
