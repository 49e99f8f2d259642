package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
)

// npyFile puts a file together from its parts; the header ends with a line break already.
func npyFile(major byte, header, data string) []byte {
	b := []byte(npyMagic + string([]byte{major, 0}))
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	return append(append(b, header...), data...)
}

func TestParseNPYKnown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		major   byte
		header  string
		data    string
		d       dtype.DType
		s       Shape
		want    []float64
		strides string
	}{
		{"f4", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n", "\x00\x00\x80\x3f\x00\x00\x00\xc0",
			dtype.Float32, Shape{2}, []float64{1, -2}, "[1]"},
		{"f8 version 2", 2, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", "\x00\x00\x00\x00\x00\x00\xf8\x3f",
			dtype.Float64, Shape{}, []float64{1.5}, "[]"},
		{"f2 version 3", 3, "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1), }\n", "\x00\x3c",
			dtype.Float16, Shape{1, 1}, []float64{1}, "[1,1]"},
		{"big-endian", 1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", "\x3f\x80\x00\x00\xc0\x00\x00\x00",
			dtype.Float32, Shape{2}, []float64{1, -2}, "[1]"},
		{"big-endian i2", 1, "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", "\x00\x01\xff\xfe",
			dtype.Int16, Shape{2}, []float64{1, -2}, "[1]"},
		{"big-endian u8", 1, "{'descr': '>u8', 'fortran_order': False, 'shape': (1,), }\n",
			"\x00\x00\x00\x00\x00\x00\x01\x02",
			dtype.Uint64, Shape{1}, []float64{258}, "[1]"},
		{"fortran", 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", "\x01\x04\x02\x05\x03\x06",
			dtype.Uint8, Shape{2, 3}, []float64{1, 2, 3, 4, 5, 6}, "[1,2]"},
		{"fortran big-endian", 1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 1, 2), }\n",
			"\x00\x01\x00\x03\x00\x02\x00\x04", dtype.Uint16, Shape{2, 1, 2}, []float64{1, 2, 3, 4}, "[1,2,2]"},
		{"any order of keys, other quotes, no last comma", 1, `{"shape":(3,2,),"fortran_order":False,"descr":"|b1"}` + "\n",
			"\x00\x01\x00\x01\x01\x00", dtype.Bool, Shape{3, 2}, []float64{0, 1, 0, 1, 1, 0}, "[2,1]"},
		{"one byte in any order", 1, "{'descr': '<i1', 'fortran_order': False, 'shape': (1,), }\n", "\xff",
			dtype.Int8, Shape{1}, []float64{-1}, "[1]"},
		{"empty", 1, "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 0), }\n", "", dtype.Int64, Shape{2, 0},
			[]float64{}, "[1,2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := ParseNPY(npyFile(tt.major, tt.header, tt.data))
			if err != nil {
				t.Fatal(err)
			}
			if x.DType != tt.d || !x.Shape.Equal(tt.s) || !equalFloats(x.Float64s(), tt.want) ||
				formatDims(x.Strides) != tt.strides {
				t.Errorf("ParseNPY = %v %v %v strides %v, want %v %v %v strides %s",
					x.DType, x.Shape, x.Float64s(), x.Strides, tt.d, tt.s, tt.want, tt.strides)
			}
		})
	}
}

// TestWriteNPYKnown pins the bytes of numpy.save (NumPy 2.4) for a few arrays.
func TestWriteNPYKnown(t *testing.T) {
	for _, tt := range []struct {
		x      *Tensor
		header string // without padding and line break
		data   string
	}{
		{FromFloat64s(dtype.Float32, MustShape(2), []float64{1, -2}),
			"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "\x00\x00\x80\x3f\x00\x00\x00\xc0"},
		{FromFloat64s(dtype.Int8, MustShape(), []float64{-1}), "{'descr': '|i1', 'fortran_order': False, 'shape': (), }",
			"\xff"},
		{FromFloat64s(dtype.Bool, MustShape(1, 2), []float64{1, 0}),
			"{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2), }", "\x01\x00"},
		{New(dtype.Float64, MustShape(0, 1, 32768, 1, 1, 1, 1, 65536)), // as long as a header gets
			"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1, 32768, 1, 1, 1, 1, 65536), }", ""},
		{New(dtype.Float64, MustShape(0, 3)), "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), }", ""},
	} {
		var buf bytes.Buffer
		if err := WriteNPY(&buf, tt.x); err != nil {
			t.Fatal(err)
		}
		want := npyFile(1, tt.header+strings.Repeat(" ", 117-len(tt.header))+"\n", tt.data)
		if !bytes.Equal(buf.Bytes(), want) {
			t.Errorf("WriteNPY =\n%q\nwant\n%q", buf.Bytes(), want)
		}
	}
}

func TestNPYRoundTrip(t *testing.T) {
	r := newRand(6)
	for _, d := range dtype.All() {
		for range 20 {
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
			var buf bytes.Buffer
			err = WriteNPY(&buf, view)
			switch d {
			case dtype.BFloat16, dtype.Float8E4M3FN, dtype.Float8E5M2:
				checkError(t, "WriteNPY", err, "npy: "+d.String()+" does not exist in .npy files [tensor-npy-dtype]",
					"write it as safetensors")
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseNPY(buf.Bytes())
			if err != nil || back.DType != d || !back.Shape.Equal(s) || !bytes.Equal(back.Bytes(), naiveBytes(view)) {
				t.Fatalf("%v %v %v does not come back: %v", d, s, l, err)
			}
			if buf.Len() != len(view.Bytes())+128 {
				t.Errorf("%v %v: file has %d bytes, data does not start at byte 128", d, s, buf.Len())
			}
		}
	}
	room := failAfter(130)
	err := WriteNPY(&room, New(dtype.Int8, MustShape(3)))
	if !errors.Is(err, errFull) {
		t.Errorf("WriteNPY on a full disk = %v, want it to wrap %v", err, errFull)
	}
	checkError(t, "WriteNPY", WriteNPY(&room, &Tensor{}), "npy: invalid does not exist in .npy files [tensor-npy-dtype]",
		"write it as safetensors")
}

func TestParseNPYErrors(t *testing.T) {
	const plain = "save a plain array with numpy.save"
	const order = "the byte order is one of < > |"
	const types = "supported are f8 f4 f2 i1 i2 i4 i8 u1 u2 u4 u8 b1"
	descr := func(d string) string { return "{'descr': '" + d + "', 'fortran_order': False, 'shape': (1,), }\n" }
	shape := func(s string) string { return "{'descr': '|u1', 'fortran_order': False, 'shape': " + s + ", }\n" }
	for _, tt := range []struct{ name, header, data, want, hint string }{
		{"empty", "", "", `npy: header byte 0: got the end, want "{" [tensor-npy-header]`, plain},
		{"expression", "dict(descr=1)\n", "", `npy: header byte 0: got "dict(descr=1", want "{" [tensor-npy-header]`, plain},
		{"no keys", "{}\n", "", `npy: header byte 2: key "descr" is missing [tensor-npy-header]`, plain},
		{"no shape", "{'descr': '|u1', 'fortran_order': False}\n", "", `npy: header byte 40: key "shape" is missing` +
			` [tensor-npy-header]`, plain},
		{"unknown key", "{'x': 1}\n", "", `npy: header byte 5: unknown key "x" [tensor-npy-header]`, plain},
		{"key twice", "{'shape': (), 'shape': ()}\n", "", `npy: header byte 21: key "shape" stands there twice` +
			` [tensor-npy-header]`, plain},
		{"key without quotes", "{descr: 1}\n", "", `npy: header byte 1: got "descr: 1}\n", want a string` +
			` [tensor-npy-header]`, plain},
		{"open string", "{'descr\n", "", `npy: header byte 1: string has no end [tensor-npy-header]`, plain},
		{"escape", "{'d\\x65scr': 1}\n", "", `npy: header byte 1: string "d\\x65scr" has an escape or a line break` +
			` [tensor-npy-header]`, plain},
		{"no colon", "{'descr' '<f4'}\n", "", `npy: header byte 9: got "'<f4'}\n", want ":" [tensor-npy-header]`, plain},
		{"number for a bool", "{'fortran_order': 0}\n", "", `npy: header byte 18: got "0}\n", want True or False` +
			` [tensor-npy-header]`, plain},
		{"word that starts like a bool", "{'fortran_order': Falsehood}\n", "",
			`npy: header byte 23: got "hood}\n", want "}" [tensor-npy-header]`, plain},
		{"list for a tuple", shape("[1]"), "", `npy: header byte 50: got "[1], }\n", want "(" [tensor-npy-header]`, plain},
		{"number in brackets", shape("(1)"), "", `npy: header byte 52: got "), }\n", want "," after the only dimension` +
			` [tensor-npy-header]`, plain},
		{"only a comma", shape("(,)"), "", `npy: header byte 51: got ",), }\n", want a dimension [tensor-npy-header]`, plain},
		{"two commas", shape("(1,,)"), "", `npy: header byte 53: got ",), }\n", want a dimension [tensor-npy-header]`, plain},
		{"no comma", shape("(1, 2 3)"), "", `npy: header byte 56: got "3), }\n", want ")" [tensor-npy-header]`, plain},
		{"expression in shape", shape("(1+1,)"), "",
			`npy: header byte 52: got "+1,), }\n", want "," after the only dimension` +
				` [tensor-npy-header]`, plain},
		{"long integer of Python 2", shape("(1L,)"), "", `npy: header byte 52: got "L,), }\n", want "," after the only` +
			` dimension [tensor-npy-header]`, plain},
		{"leading zero", shape("(01,)"), "", `npy: header byte 51: got "01,), }\n", want a dimension [tensor-npy-header]`,
			plain},
		{"fraction", shape("(1.5,)"), "", `npy: header byte 52: got ".5,), }\n", want "," after the only dimension` +
			` [tensor-npy-header]`, plain},
		{"minus alone", shape("(-,)"), "", `npy: header byte 51: got "-,), }\n", want a dimension [tensor-npy-header]`,
			plain},
		{"dimension of 20 digits", shape("(99999999999999999999,)"), "",
			`npy: header byte 51: dimension 99999999999999999999` +
				` does not fit in 64 bits [tensor-npy-header]`, plain},
		{"no line break", strings.TrimSuffix(shape("()"), "\n"), "1", `npy: header byte 55: got the end, want "\n"` +
			` [tensor-npy-header]`, plain},
		{"text after the end", shape("()") + " ", "1", `npy: header byte 56: got " " after the end of the header` +
			` [tensor-npy-header]`, plain},
		{"tab", "\t" + shape("()"), "1", `npy: header byte 0: got "\t{'descr': '", want "{" [tensor-npy-header]`, plain},
		{"negative", shape("(2, -3)"), "", `npy: shape: dimension 1 of shape [2,-3] is negative: -3 [tensor-shape-dim]`,
			"a dimension is 0 or more"},
		{"too many elements", shape("(65536, 65536)"), "",
			`npy: shape: dimension 1 of shape [65536,65536] is 65536: the shape` +
				` passes the limit of 2147483648 elements [tensor-shape-limit]`, "use a smaller shape"},
		{"too many bytes", strings.Replace(shape("(2147483648,)"), "|u1", "<f8", 1), "", `npy: shape: shape [2147483648] of` +
			` float64 needs more than the limit of 8589934592 bytes [tensor-byte-limit]`,
			"use a smaller shape or a narrower dtype"},
		{"rank", shape("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "", `npy: shape has more than 8 dimensions [tensor-shape-rank]`,
			"merge dimensions before testing"},
		{"truncated", shape("(3,)"), "12", `npy: uint8 of shape [3] needs 3 bytes, only 2 follow the header` +
			` [tensor-data-length]`, "the file is truncated; write or copy it again"},
		{"trailing", shape("(3,)"), "12345", `npy: uint8 of shape [3] needs 3 bytes, 2 more follow [tensor-data-length]`,
			"write one array per file"},
		{"structured", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", "",
			"npy: structured arrays are not supported [tensor-npy-dtype]", "save each field as an array of its own"},
		{"complex", descr("<c8"), "", `npy: descr "<c8" is not supported [tensor-npy-dtype]`, types},
		{"object", descr("|O"), "", `npy: descr "|O" is not supported [tensor-npy-dtype]`, types},
		{"text", descr("<U10"), "", `npy: descr "<U10" is not supported [tensor-npy-dtype]`, types},
		{"f3", descr("<f3"), "", `npy: descr "<f3" is not supported [tensor-npy-dtype]`, types},
		{"native order", descr("=f4"), "", `npy: descr "=f4" is not supported [tensor-npy-dtype]`, order},
		{"no order", descr("|f4"), "", `npy: descr "|f4" is not supported [tensor-npy-dtype]`,
			"a type of several bytes needs its byte order, < or >"},
		{"bfloat16 of ml_dtypes", descr("<V2"), "", `npy: descr "<V2" is not supported [tensor-npy-dtype]`,
			"NumPy saves bfloat16 and float8 as raw bytes without their type; use safetensors for them"},
		{"long descr", descr(strings.Repeat("f", 70)), "", `npy: descr "` + strings.Repeat("f", 64) +
			`"... is not supported [tensor-npy-dtype]`, types},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := ParseNPY(npyFile(1, tt.header, tt.data))
			checkError(t, "ParseNPY", err, tt.want, tt.hint)
			if x != nil {
				t.Error("ParseNPY returns a tensor and an error")
			}
		})
	}
	const truncated = "the file is truncated; write or copy it again"
	for _, tt := range []struct{ file, want, hint string }{
		{"", "npy: file does not start with the .npy magic and version [tensor-npy-header]", "write it with numpy.save"},
		{"\x93NUMPY\x01", "npy: file does not start with the .npy magic and version [tensor-npy-header]",
			"write it with numpy.save"},
		{"\x94NUMPY\x01\x00\x00\x00", "npy: file does not start with the .npy magic and version [tensor-npy-header]",
			"write it with numpy.save"},
		{"\x93NUMPY\x04\x00\x00\x00", "npy: format version 4.0 is not known [tensor-npy-header]",
			"write it with format version 1.0, 2.0 or 3.0"},
		{"\x93NUMPY\x01\x01\x00\x00", "npy: format version 1.1 is not known [tensor-npy-header]",
			"write it with format version 1.0, 2.0 or 3.0"},
		{"\x93NUMPY\x01\x00\x00", "npy: file ends in the header length [tensor-npy-header]", truncated},
		{"\x93NUMPY\x02\x00\x00\x00\x00", "npy: file ends in the header length [tensor-npy-header]", truncated},
		{"\x93NUMPY\x01\x00\x04\x00{}\n", "npy: header length is 4, only 3 bytes follow [tensor-npy-header]", truncated},
		{"\x93NUMPY\x02\x00\x00\x00\x01\x00", "npy: header length 65536 is over the limit of 65535 bytes" +
			" [tensor-npy-header]", "save a plain array"},
	} {
		_, err := ParseNPY([]byte(tt.file))
		checkError(t, fmt.Sprintf("ParseNPY(%q)", tt.file), err, tt.want, tt.hint)
	}
}
