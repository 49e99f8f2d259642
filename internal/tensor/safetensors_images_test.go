package tensor

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// AppendSafetensors gives the bytes that WriteSafetensors writes, wherever they begin.
func TestAppendSafetensors(t *testing.T) {
	x, err := counting(MustShape(2, 3)).Transpose()
	if err != nil {
		t.Fatal(err)
	}
	for _, ts := range [][]Named{
		nil,
		{{"plain", x}},
		{{"b<\"é\\\n\x7f", x}, {"", New(dtype.Bool, MustShape())}, {"e", New(dtype.Int16, MustShape(0, 7))}},
	} {
		var want bytes.Buffer
		if err := WriteSafetensors(&want, ts, nil); err != nil {
			t.Fatal(err)
		}
		for _, before := range []string{"", "abc", "eight by"} {
			got, err := AppendSafetensors([]byte(before), ts)
			if err != nil || string(got) != before+want.String() {
				t.Errorf("AppendSafetensors to %q = %q, %v, want %q behind it", before, got, err, want.String())
			}
		}
	}
	if _, err := AppendSafetensors(nil, []Named{{"a", x}, {"a", x}}); diag.CodeOf(err) != SafetensorsName {
		t.Errorf("a name that is given twice: %v", err)
	}
}

// Images gives what ParseSafetensors gives, whether the header is new, known, or pushed out by others; and what is
// wrong with the data behind a known header is seen.
func TestImages(t *testing.T) {
	var images Images
	parse := func(b []byte) []Named {
		t.Helper()
		want, _, wrong := ParseSafetensors(b)
		got, err := images.Parse(b)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wrong) {
			t.Fatalf("Images.Parse = %v, %v, want %v, %v", got, err, want, wrong)
		}
		return got
	}
	image := func(n int, fill float64) []byte {
		values := slices.Repeat([]float64{fill}, 2*n)
		x := FromFloat64s(dtype.Float32, MustShape(n, 2), values)
		b, err := AppendSafetensors(nil, []Named{{"outputs/y", x}, {"again/y", x}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := parse(image(3, 1))
	parse(image(3, 2))
	if got := first[0].Tensor.Float64s()[0]; got != 1 {
		t.Errorf("the first image has %v now, want 1: images share memory", got)
	}
	first[0].Tensor.Shape[0] = 6
	parse(image(3, 3)) // what others do to a tensor is theirs
	cut := image(3, 4)
	parse(cut[:len(cut)-1])
	parse(append(image(3, 5), 0))
	parse([]byte("short"))
	parse(safetensorsFile(`{"a":1}`, ""))
	parse(safetensorsFile(`{"a":1}`, "")) // no better the second time
	for n := range maxForms + 10 {
		parse(image(n%50, 6))
		parse(safetensorsFile(fmt.Sprintf(`{"t%d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, n), "x"))
	}
	if n := len(images.forms); n > maxForms {
		t.Errorf("%d headers are remembered, at most %d should be", n, maxForms)
	}
	parse(image(3, 7))
}
