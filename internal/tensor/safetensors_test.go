package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
)

// safetensorsFile puts a file together from its header text and data.
func safetensorsFile(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// TestParseSafetensorsKnown reads a file written out by hand, in the form of the reference implementation: header
// padded with spaces, data in another order than the header, an empty tensor and a scalar.
func TestParseSafetensorsKnown(t *testing.T) {
	header := `{"__metadata__":{"format":"pt","note":"a\u00e9"},` +
		`"w":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},` +
		`"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},` +
		`"e":{"dtype":"BOOL","shape":[0,3],"data_offsets":[16,16]},` +
		`"h":{"dtype":"BF16","shape":[1],"data_offsets":[16,18]}}   `
	data := "\xff\xff\xff\xff\xff\xff\xff\xff" + "\x00\x00\x80\x3f\x00\x00\x00\xc0" + "\x80\x3f"
	ts, meta, err := ParseSafetensors(safetensorsFile(header, data))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, x := range ts {
		got += fmt.Sprintln(x.Name, x.Tensor.DType, x.Tensor.Shape, x.Tensor.Float64s())
	}
	want := "w float32 [2,1] [1 -2]\nn int64 [] [-1]\ne bool [0,3] []\nh bfloat16 [1] [1]\n"
	if got != want {
		t.Errorf("ParseSafetensors =\n%swant\n%s", got, want)
	}
	if want := map[string]string{"format": "pt", "note": "aé"}; !maps.Equal(meta, want) {
		t.Errorf("metadata = %v, want %v", meta, want)
	}
}

// TestWriteSafetensorsKnown pins the bytes of a file.
func TestWriteSafetensorsKnown(t *testing.T) {
	x, err := counting(MustShape(2, 2)).Transpose()
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	err = WriteSafetensors(&buf, []Named{
		{"b<\"", x}, {"a", New(dtype.Float8E4M3FN, MustShape(0))}, {"", FromFloat64s(dtype.Bool, MustShape(), []float64{1})},
	}, map[string]string{"z": "1", "k": "&"})
	if err != nil {
		t.Fatal(err)
	}
	header := `{"__metadata__":{"k":"&","z":"1"},"b<\"":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]},` +
		`"a":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[16,16]},` +
		`"":{"dtype":"BOOL","shape":[],"data_offsets":[16,17]}}`
	header += strings.Repeat(" ", 7-(len(header)+7)%8)
	want := safetensorsFile(header, "\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x01")
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("WriteSafetensors =\n%q\nwant\n%q", buf.Bytes(), want)
	}
	buf.Reset()
	if err := WriteSafetensors(&buf, nil, nil); err != nil || buf.String() != "\x08\x00\x00\x00\x00\x00\x00\x00{}      " {
		t.Errorf("WriteSafetensors of nothing = %q, %v", buf.Bytes(), err)
	}
}

// TestSafetensorsRoundTrip: every dtype in every layout comes back with its logical bytes, in order.
func TestSafetensorsRoundTrip(t *testing.T) {
	r := newRand(5)
	for range 40 {
		var ts []Named
		for _, d := range dtype.All() {
			l := Layouts()[r.IntN(len(Layouts()))]
			s := randomShape(r, 0, 4)
			if !l.Supports(s) || s.Elems() > 1<<12 {
				continue
			}
			fill, view, err := AllocateFill(d, s, l, randomParams(r, len(s)))
			if err != nil {
				t.Fatal(err)
			}
			fill.SetBytes(randomBytes(r, fill.Elems()*d.Size()))
			ts = append(ts, Named{fmt.Sprintf("%s.%s\n", d, l), view})
		}
		var buf bytes.Buffer
		if err := WriteSafetensors(&buf, ts, map[string]string{"seed": "5"}); err != nil {
			t.Fatal(err)
		}
		first := bytes.Clone(buf.Bytes())
		back, meta, err := ParseSafetensors(first)
		if err != nil || len(back) != len(ts) || meta["seed"] != "5" {
			t.Fatalf("ParseSafetensors = %d tensors, %v, %v, want %d", len(back), meta, err, len(ts))
		}
		for i, x := range back {
			y := ts[i]
			if x.Name != y.Name || x.Tensor.DType != y.Tensor.DType || !x.Tensor.Shape.Equal(y.Tensor.Shape) ||
				!bytes.Equal(x.Tensor.Bytes(), naiveBytes(y.Tensor)) {
				t.Fatalf("tensor %q does not come back", y.Name)
			}
		}
		buf.Reset()
		if err := WriteSafetensors(&buf, back, meta); err != nil || !bytes.Equal(buf.Bytes(), first) {
			t.Fatalf("writing what was read gives other bytes (%v)", err)
		}
	}
}

func TestParseSafetensorsAlignment(t *testing.T) {
	header := `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}`
	header += strings.Repeat(" ", 7-(len(header)+7)%8)
	b := safetensorsFile(header, "\x07\x00\x00\x80\x3f")
	aligned := make([]byte, len(b)+8)[:len(b)] // a large allocation starts at a multiple of 8
	copy(aligned, b)
	ts, _, err := ParseSafetensors(aligned)
	if err != nil {
		t.Fatal(err)
	}
	aligned[len(b)-5], aligned[len(b)-1] = 9, 0xbf
	if got := ts[0].Tensor.At(0); got != 9 {
		t.Errorf("aligned tensor = %v, want 9: it is a copy", got)
	}
	if got := ts[1].Tensor.At(0); got != 1 {
		t.Errorf("unaligned tensor = %v, want 1: it is not a copy", got)
	}
}

func TestParseSafetensorsErrors(t *testing.T) {
	const (
		again = "write the file again with a safetensors library"
		short = "the file is truncated or its header is wrong; write or copy it again"
	)
	one := func(fields string) string { return `{"w":{` + fields + `}}` }
	f32 := func(shape, offsets string) string {
		return one(`"dtype":"F32","shape":` + shape + `,"data_offsets":` + offsets)
	}
	two := func(a, b string) string {
		u8 := `{"dtype":"U8","shape":[2],"data_offsets":`
		return `{"a":` + u8 + a + `},"b":` + u8 + b + `}}`
	}
	for _, tt := range []struct {
		name, header, data, want, hint string
	}{
		{"no object", `[]`, "", `safetensors: header does not start with '{' [tensor-safetensors-header]`, again},
		{"empty header", ``, "", `safetensors: header does not start with '{' [tensor-safetensors-header]`, again},
		{"leading space", ` {}`, "", `safetensors: header does not start with '{' [tensor-safetensors-header]`, again},
		{"not utf-8", "{\"\xff\":1}", "", `safetensors: header is not UTF-8 [tensor-safetensors-header]`, again},
		{"cut json", `{"w":`, "", `safetensors: header is not JSON at byte 5: unexpected EOF [tensor-safetensors-header]`,
			again},
		{"bad json", `{"w"}`, "", `safetensors: header is not JSON at byte 4: invalid character '}' after object key` +
			` [tensor-safetensors-header]`, again},
		{"bytes after header", `{} x`, "", `safetensors: header has bytes other than spaces after its end at byte 2` +
			` [tensor-safetensors-header]`, again},
		{"entry is a list", `{"w":[]}`, "", `safetensors: tensor "w": entry is [, want "{" [tensor-safetensors-header]`,
			again},
		{"entry is null", `{"w":null}`, "",
			`safetensors: tensor "w": entry is null, want "{" [tensor-safetensors-header]`, again},
		{"missing field", one(`"dtype":"F32","shape":[1]`), "", `safetensors: tensor "w": field "data_offsets" is missing` +
			` [tensor-safetensors-header]`, again},
		{"unknown field", one(`"Dtype":"F32"`), "", `safetensors: tensor "w": unknown field "Dtype"` +
			` [tensor-safetensors-header]`, again},
		{"field twice", one(`"dtype":"F32","dtype":"F32"`), "", `safetensors: tensor "w": field "dtype" stands there twice` +
			` [tensor-safetensors-header]`, again},
		{"name twice", `{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0077":{}}`, "",
			`safetensors: name "w" stands twice in the header [tensor-safetensors-name]`, "give every tensor its own name"},
		{"metadata twice", `{"__metadata__":{},"__metadata__":{}}`, "",
			`safetensors: name "__metadata__" stands twice in the header [tensor-safetensors-name]`,
			"give every tensor its own name"},
		{"metadata number", `{"__metadata__":{"a":1}}`, "", `safetensors: __metadata__: value of "a" is 1, want a string` +
			` [tensor-safetensors-header]`, again},
		{"metadata key twice", `{"__metadata__":{"a":"","a":""}}`, "",
			`safetensors: __metadata__: key "a" stands there twice` +
				` [tensor-safetensors-header]`, again},
		{"metadata is a string", `{"__metadata__":"x"}`, "", `safetensors: __metadata__ is "x", want "{"` +
			` [tensor-safetensors-header]`, again},
		{"dtype number", one(`"dtype":4`), "", `safetensors: tensor "w": dtype: got 4, want a string` +
			` [tensor-safetensors-header]`, again},
		{"unknown dtype", one(`"dtype":"F4"`), "", `safetensors: tensor "w": dtype: unknown dtype "F4"` +
			` [tensor-safetensors-dtype]`, "supported are F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I8 I16 I32 I64 U8 U16 U32 U64 BOOL"},
		{"empty dtype", one(`"dtype":""`), "", `safetensors: tensor "w": dtype: unknown dtype ""` +
			` [tensor-safetensors-dtype]`, "supported are F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I8 I16 I32 I64 U8 U16 U32 U64 BOOL"},
		{"shape is a string", one(`"shape":"1"`), "", `safetensors: tensor "w": shape is "1", want "["` +
			` [tensor-safetensors-header]`, again},
		{"shape of strings", one(`"shape":["1"]`), "", `safetensors: tensor "w": shape: got "1", want an integer` +
			` [tensor-safetensors-header]`, again},
		{"fractional dim", one(`"shape":[1.0]`), "", `safetensors: tensor "w": shape: 1.0 is not an integer of 64 bits` +
			` [tensor-safetensors-header]`, again},
		{"huge dim", one(`"shape":[18446744073709551616]`), "", `safetensors: tensor "w": shape: 18446744073709551616 is` +
			` not an integer of 64 bits [tensor-safetensors-header]`, again},
		{"negative dim", one(`"shape":[2,-1]`), "", `safetensors: tensor "w": shape: dimension 1 of shape [2,-1] is` +
			` negative: -1 [tensor-shape-dim]`, "a dimension is 0 or more"},
		{"rank", one(`"shape":[1,1,1,1,1,1,1,1,1,1]`), "", `safetensors: tensor "w": shape: more than 8 dimensions` +
			` [tensor-shape-rank]`, "merge dimensions before testing"},
		{"product overflows", one(`"shape":[4294967296,4294967296]`), "", `safetensors: tensor "w": shape: dimension 0 of` +
			` shape [4294967296,4294967296] is 4294967296: the shape passes the limit of 2147483648 elements` +
			` [tensor-shape-limit]`, "use a smaller shape"},
		{"byte limit", one(`"dtype":"F64","shape":[2147483648],"data_offsets":[0,17179869184]`), "",
			`safetensors: tensor "w": shape: shape [2147483648] of float64 needs more than the limit of 8589934592 bytes` +
				` [tensor-byte-limit]`, "use a smaller shape or a narrower dtype"},
		{"one offset", f32(`[1]`, `[0]`), "", `safetensors: tensor "w": data_offsets: want 2 numbers` +
			` [tensor-safetensors-header]`, again},
		{"three offsets", f32(`[1]`, `[0,4,8]`), "", `safetensors: tensor "w": data_offsets: want 2 numbers` +
			` [tensor-safetensors-header]`, again},
		{"negative offset", f32(`[1]`, `[-4,0]`), "", `safetensors: tensor "w": data_offsets: offset -4 is negative` +
			` [tensor-safetensors-offsets]`, again},
		{"reversed offsets", f32(`[1]`, `[4,0]`), "1234", `safetensors: tensor "w": data_offsets: begin 4 is after end 0` +
			` [tensor-safetensors-offsets]`, again},
		{"truncated data", f32(`[1]`, `[0,4]`), "123", `safetensors: tensor "w": data_offsets: end 4 is past the 3 bytes of` +
			` data [tensor-safetensors-offsets]`, short},
		{"offset overflow", f32(`[1]`, `[9223372036854775804,9223372036854775807]`), "1234", `safetensors: tensor "w":` +
			` data_offsets: end 9223372036854775807 is past the 4 bytes of data [tensor-safetensors-offsets]`, short},
		{"wrong length", f32(`[2]`, `[0,4]`), "1234", `safetensors: tensor "w": data_offsets: float32 of shape [2] needs 8` +
			` bytes, the range 0 to 4 has 4 [tensor-data-length]`, again},
		{"hole in front", two(`[1,3]`, `[3,5]`), "12345",
			`safetensors: tensor "a": data_offsets: begin 1 leaves a hole after` +
				` byte 0 [tensor-safetensors-offsets]`, again},
		{"hole between", two(`[0,2]`, `[3,5]`), "12345",
			`safetensors: tensor "b": data_offsets: begin 3 leaves a hole after` +
				` byte 2 [tensor-safetensors-offsets]`, again},
		{"overlap", two(`[0,2]`, `[1,3]`), "123",
			`safetensors: tensor "b": data_offsets: begin 1 overlaps tensor "a", which` +
				` ends at 2 [tensor-safetensors-offsets]`, again},
		{"same range", two(`[0,2]`, `[0,2]`), "12",
			`safetensors: tensor "b": data_offsets: begin 0 overlaps tensor "a", which` +
				` ends at 2 [tensor-safetensors-offsets]`, again},
		{"trailing data", two(`[0,2]`, `[2,4]`), "12345",
			`safetensors: 1 bytes of data follow the last tensor, which ends at` +
				` 4 [tensor-safetensors-offsets]`, again},
		{"long name", `{"` + strings.Repeat("n", 100) + `":1}`, "", `safetensors: tensor "` + strings.Repeat("n", 64) +
			`"...: entry is 1, want "{" [tensor-safetensors-header]`, again},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ts, _, err := ParseSafetensors(safetensorsFile(tt.header, tt.data))
			checkError(t, "ParseSafetensors", err, tt.want, tt.hint)
			if ts != nil {
				t.Error("ParseSafetensors returns tensors and an error")
			}
		})
	}
}

func TestParseSafetensorsLength(t *testing.T) {
	for _, tt := range []struct{ file, want, hint string }{
		{"", "safetensors: file has 0 bytes, the header length alone takes 8 [tensor-safetensors-header]",
			"check that this is a complete safetensors file"},
		{"1234567", "safetensors: file has 7 bytes, the header length alone takes 8 [tensor-safetensors-header]",
			"check that this is a complete safetensors file"},
		{"\x03\x00\x00\x00\x00\x00\x00\x00{}", "safetensors: header length is 3, only 2 bytes follow" +
			" [tensor-safetensors-header]", "the file is truncated; write or copy it again"},
		{"\x01\xe1\xf5\x05\x00\x00\x00\x00{}", "safetensors: header length 100000001 is over the limit of 100000000 bytes" +
			" [tensor-safetensors-header]", "check that this is a safetensors file"},
		{"\xff\xff\xff\xff\xff\xff\xff\xff{}", "safetensors: header length 18446744073709551615 is over the limit of" +
			" 100000000 bytes [tensor-safetensors-header]", "check that this is a safetensors file"},
	} {
		_, _, err := ParseSafetensors([]byte(tt.file))
		checkError(t, fmt.Sprintf("ParseSafetensors(%q)", tt.file), err, tt.want, tt.hint)
	}
}

var errFull = errors.New("disk full")

// failAfter is a writer that takes n bytes.
type failAfter int

func (w *failAfter) Write(b []byte) (int, error) {
	if *w -= failAfter(len(b)); *w < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteSafetensorsErrors(t *testing.T) {
	x := New(dtype.Int8, MustShape(1))
	const nameHint = "give every tensor its own name in UTF-8"
	for _, tt := range []struct {
		ts         []Named
		meta       map[string]string
		want, hint string
	}{
		{[]Named{{"a", x}, {"a", x}}, nil,
			`safetensors: name "a" is given twice, reserved or not UTF-8 [tensor-safetensors-name]`, nameHint},
		{[]Named{{"__metadata__", x}}, nil,
			`safetensors: name "__metadata__" is given twice, reserved or not UTF-8 [tensor-safetensors-name]`, nameHint},
		{[]Named{{"\xff", x}}, nil,
			`safetensors: name "\xff" is given twice, reserved or not UTF-8 [tensor-safetensors-name]`, nameHint},
		{nil, map[string]string{"k": "\xff"}, `safetensors: metadata "k" is not UTF-8 [tensor-safetensors-name]`, "use text"},
		{[]Named{{"a", &Tensor{}}}, nil, `safetensors: tensor "a": dtype: invalid has no name in safetensors` +
			` [tensor-safetensors-dtype]`, "set the dtype of the tensor"},
	} {
		var buf bytes.Buffer
		err := WriteSafetensors(&buf, tt.ts, tt.meta)
		checkError(t, "WriteSafetensors", err, tt.want, tt.hint)
		if buf.Len() > 0 {
			t.Errorf("WriteSafetensors wrote %d bytes before the error %v", buf.Len(), err)
		}
	}
	for _, room := range []failAfter{0, 100} {
		err := WriteSafetensors(&room, []Named{{"a", New(dtype.Int8, MustShape(99))}}, nil)
		checkError(t, "WriteSafetensors", err, "disk full [tensor-file-write]",
			"check the path, its permissions and the free space")
		if !errors.Is(err, errFull) {
			t.Errorf("WriteSafetensors = %v, want it to wrap %v", err, errFull)
		}
	}
}
