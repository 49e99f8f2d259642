package gen

import (
	"bytes"
	"math"
	"runtime"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
)

// TestInputsOnAnyCores checks that the number of goroutines does not show in the values.
func TestInputsOnAnyCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for i := range distributions {
		name := distributions[i].Name
		t.Run(name, func(t *testing.T) {
			for _, shape := range [][2]int{{1, 1}, {1, chunkElems + 1}, {9, chunkElems - 1}, {3000, 11}, {3, 3 * chunkElems}} {
				c := vectorCase(dtype.Float32, name, shape[0], shape[1])
				var first []byte
				for _, cores := range []int{1, 2, 5} {
					runtime.GOMAXPROCS(cores)
					in, err := Inputs(vectorSchema(), c)
					if err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = in["x"].Bytes()
					}
					if !bytes.Equal(first, in["x"].Bytes()) {
						t.Errorf("shape %v: values on %d cores differ from those on one", shape, cores)
					}
				}
			}
		})
	}
}

// TestUsedBuffers checks that what a buffer held before does not show in the values.
func TestUsedBuffers(t *testing.T) {
	spoil := func(x float64) {
		for buffers.Get() != nil { // others would be taken first
		}
		buf := make([]float64, 2*chunkElems)
		for i := range buf {
			buf[i] = x
		}
		buffers.Put(&buf)
	}
	for _, list := range [][]distribution{distributions[:], roleDistributions[:]} {
		for i := range list {
			d := dtype.Float32
			if list[i].Name == maskValues {
				d = dtype.Bool
			}
			c := vectorCase(d, list[i].Name, 3, 501)
			schema := vectorSchema()
			switch list[i].Name {
			case probabilityValues:
				schema.Inputs[0].Role = opspec.RoleProbability
			case scaleValues:
				schema.Inputs[0].Role = opspec.RoleScale
			}
			var values [2][]byte
			for k, x := range []float64{0, 7} {
				spoil(x)
				in, err := Inputs(schema, c)
				if err != nil {
					t.Fatal(err)
				}
				values[k] = in["x"].Bytes()
			}
			if !bytes.Equal(values[0], values[1]) {
				t.Errorf("%s: values depend on what the buffer held before", list[i].Name)
			}
		}
	}
}

// TestNormalIsFillNormal checks that drawing in chunks and finishing later gives the normal values of the stream.
func TestNormalIsFillNormal(t *testing.T) {
	for _, n := range []int{1, 2, 3, chunkElems - 1, chunkElems, chunkElems + 1, 5*chunkElems + 7} {
		in, err := Inputs(vectorSchema(), vectorCase(dtype.Float64, "normal", 1, n))
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float64, n)
		rng.New(42).Derive("v1/values/x").FillNormal(want)
		for i, got := range in["x"].Float64s() {
			if math.Float64bits(got) != math.Float64bits(want[i]) {
				t.Fatalf("%d normal values: element %d = %v, want %v", n, i, got, want[i])
			}
		}
	}
}
