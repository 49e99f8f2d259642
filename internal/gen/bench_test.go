package gen

import (
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// vectorSchema has one input of one dimension before the last.
func vectorSchema() *opspec.Schema {
	return &opspec.Schema{Name: "vector", DTypes: dtype.All(),
		Dims:   []opspec.Dim{{Name: "B", Candidates: []int{1}, Empty: true}, {Name: "N", Candidates: []int{1}}},
		Inputs: []opspec.Input{{Name: "x", Dims: []string{"B", "N"}}}}
}

func vectorCase(d dtype.DType, values string, b, n int) opspec.Case {
	return opspec.Case{Op: "vector", DType: d, Dims: []opspec.DimValue{{Name: "B", Value: b}, {Name: "N", Value: n}},
		Inputs: []opspec.CaseInput{{Name: "x", DType: d, Shape: tensor.Shape{b, n}, Layout: tensor.Contiguous,
			Values: values}},
		Seed: 42, Gen: opspec.GenVersion}
}

func BenchmarkInputs(b *testing.B) {
	const rows, n = 256, 1024
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN, dtype.Int8} {
		for i := range distributions {
			if d != dtype.Float32 && i > 1 {
				break
			}
			b.Run(d.String()+"/"+distributions[i].Name, func(b *testing.B) {
				c := vectorCase(d, distributions[i].Name, rows, n)
				s := vectorSchema()
				for range b.N {
					if _, err := Inputs(s, c); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*rows*n/b.Elapsed().Seconds()/1e6, "Melem/s")
			})
		}
	}
}

func BenchmarkCase(b *testing.B) {
	stream, err := Cases(vectorSchema(), Strategy{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		if _, err := stream.Case(i); err != nil {
			b.Fatal(err)
		}
	}
}
