package store

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// layouts returns a tensor of every layout that exists for the shape, with values 0, 1, 2…
func layouts(t *testing.T, d dtype.DType, shape tensor.Shape) []tensor.Named {
	t.Helper()
	var ts []tensor.Named
	for _, l := range tensor.Layouts() {
		if !l.Supports(shape) {
			continue
		}
		params := tensor.LayoutParams{}
		if l != tensor.Contiguous {
			params = tensor.LayoutParams{Lead: 3, Tail: 5}
		}
		fill, view, err := tensor.AllocateFill(d, shape, l, params)
		ok(t, err)
		vals := make([]float64, fill.Elems())
		for i := range vals {
			vals[i] = float64(i % 100)
		}
		fill.SetFloat64s(vals)
		ts = append(ts, tensor.Named{Name: l.String() + " " + d.String() + " " + shape.String(), Tensor: view})
	}
	return ts
}

func TestTensorsKeepTheirLayout(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	var ts []tensor.Named
	for _, d := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Float64} {
		for _, shape := range []tensor.Shape{tensor.MustShape(2, 3, 4), tensor.MustShape(7), tensor.MustShape(),
			tensor.MustShape(0, 3)} {
			ts = append(ts, layouts(t, d, shape)...)
		}
	}
	whole := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(4), []float64{1, 2, 3, 4})
	back, err := whole.Slice(0, 3, -1, -1)
	ok(t, err)
	part, err := whole.Slice(0, 1, 3, 1) // contiguous, but not all of its storage
	ok(t, err)
	ts = append(ts, tensor.Named{Name: "reversed", Tensor: back}, tensor.Named{Name: "part", Tensor: part})

	meta := map[string]string{"case": "softmax"}
	key, err := s.SaveTensors(ctx, ts, meta)
	ok(t, err)
	f, err := s.LoadTensors(ctx, key)
	ok(t, err)
	defer f.Close()
	if !maps.Equal(f.Metadata, meta) || len(meta) != 1 {
		t.Errorf("metadata = %v, want %v", f.Metadata, meta)
	}
	if len(f.Tensors) != len(ts) {
		t.Fatalf("%d tensors came back, want %d", len(f.Tensors), len(ts))
	}
	for i, want := range ts {
		got := f.Tensors[i]
		if got.Name != want.Name || got.Tensor.DType != want.Tensor.DType || !got.Tensor.Shape.Equal(want.Tensor.Shape) ||
			!slices.Equal(got.Tensor.Data, want.Tensor.Data) || got.Tensor.Offset != want.Tensor.Offset {
			t.Errorf("%s came back as %+v, want %+v", want.Name, got, want)
		}
		if want.Tensor.Elems() > 1 && !slices.Equal(got.Tensor.Strides, want.Tensor.Strides) {
			t.Errorf("%s has strides %v, want %v", want.Name, got.Tensor.Strides, want.Tensor.Strides)
		}
	}
	again, err := s.SaveTensors(ctx, ts, meta)
	if ok(t, err); again != key {
		t.Errorf("the same tensors have keys %s and %s", key, again)
	}
	other, err := s.SaveTensors(ctx, ts, nil)
	if ok(t, err); other == key {
		t.Error("other metadata has the same key")
	}
	if u, err := s.Usage(ctx); err != nil || u.Tensors != 2 {
		t.Errorf("Usage = %+v, %v, want 2 tensor files", u, err)
	}
	info, err := os.Stat(s.blob(key))
	if ok(t, err); info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode of the tensor file = %v", info.Mode())
	}
}

func TestLoadTensorsFaults(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(4), []float64{1, 2, 3, 4})
	key, err := s.SaveTensors(ctx, []tensor.Named{{Name: "x", Tensor: x}}, nil)
	ok(t, err)
	_, err = s.LoadTensors(ctx, strings.Repeat("0", 64))
	wantCode(t, err, TensorsMissing)
	for _, bad := range []string{"", "../x", strings.Repeat("Z", 64), key + "\n"} {
		if _, err := s.LoadTensors(ctx, bad); diag.CodeOf(err) != TensorsMissing {
			t.Errorf("LoadTensors(%q) = %v, want code %s", bad, err, TensorsMissing)
		}
	}
	b, err := os.ReadFile(s.blob(key))
	ok(t, err)
	for name, damaged := range map[string][]byte{
		"cut": b[:len(b)-1], "changed": append(b[:len(b)-1:len(b)-1], 7), "empty": {},
	} {
		ok(t, os.WriteFile(s.blob(key), damaged, 0o600))
		_, err = s.LoadTensors(ctx, key)
		wantCode(t, err, TensorsDamaged)
		if !strings.Contains(err.Error(), s.blob(key)) {
			t.Errorf("%s: the error %q does not name the file", name, err)
		}
	}
	_, err = s.SaveTensors(ctx, nil, map[string]string{viewsKey: "{}"})
	if diag.CodeOf(err) != BadRecord {
		t.Errorf("SaveTensors with the reserved key = %v", err)
	}
}

func TestCancelledSaveLeavesNothing(t *testing.T) {
	s := open(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(4), []float64{1, 2, 3, 4})
	if _, err := s.SaveTensors(ctx, []tensor.Named{{Name: "x", Tensor: x}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("SaveTensors = %v, want %v", err, context.Canceled)
	}
	files, err := os.ReadDir(filepath.Join(s.dir, blobDir))
	if ok(t, err); len(files) != 0 {
		t.Errorf("files left: %v", files)
	}
}

func TestFlattenLeavesItsArgumentsAlone(t *testing.T) {
	ts := layouts(t, dtype.Float32, tensor.MustShape(2, 3))
	want := slices.Clone(ts)
	meta := map[string]string{"k": "v"}
	_, _, err := flatten(ts, meta)
	if ok(t, err); !reflect.DeepEqual(ts, want) || len(meta) != 1 {
		t.Error("flatten changed its arguments")
	}
}
