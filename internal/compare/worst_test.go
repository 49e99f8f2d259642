package compare

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
)

// TestWrongOnly compares reports with and without accepted elements: nothing else may differ.
func TestWrongOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 3))
	shortened, kept := 0, 0
	for range 300 {
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.BFloat16, dtype.Int32, dtype.Int64} {
			got, want, opt := randomCase(r, d)
			all, err := Compare(got, want, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.WrongOnly = true
			rep, err := Compare(got, want, opt)
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range []*[]Element{&all.Worst.Abs, &all.Worst.Rel, &all.Worst.ULP, &all.Worst.Ratio} {
				n := len(*list)
				*list = slices.DeleteFunc(*list, func(e Element) bool { return !e.Wrong })
				shortened, kept = shortened+n-len(*list), kept+len(*list)
				if len(*list) == 0 {
					*list = nil
				}
			}
			// Elements may hold NaN, which equals nothing: their texts and all numbers of the others are compared.
			if gotText, wantText := rep.Text(true), all.Text(true); gotText != wantText {
				t.Fatalf("%v: report is\n%s\nwant\n%s", d, gotText, wantText)
			}
			rep.Worst, all.Worst = Worst{}, Worst{}
			if !reflect.DeepEqual(rep, all) {
				t.Fatalf("%v: report is %+v, want %+v", d, rep, all)
			}
		}
	}
	if shortened == 0 || kept == 0 {
		t.Errorf("%d accepted and %d wrong elements were listed, want some of both", shortened, kept)
	}
}
