package launchfile

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// good is a launch file with every key, some in their short form, and notes with whatever they have.
const good = `{
	"note": "kernels/softmax.cu, recorded", "notes": {"gpu": "H200", "grid": 1, "gpu": [{"gpu": 1, "gpu": 2}]},
	"ptx": "softmax.ptx", "entry": "softmax", "grid": [3, 1, 1], "block": [64, 2], "dynamic_shared": 128,
	"args": [
		{"kind": "tensor", "name": "x", "dtype": "float32", "shape": [2, 3], "role": "in", "file": "x.bin",
			"notes": {"seed": 7}, "valid": [[3, 2], [0, 2]]},
		{"kind": "tensor", "name": "y", "dtype": "f16", "shape": [], "role": "out", "file": null},
		{"kind": "tensor", "dtype": "bf16", "shape": [0, 4], "role": "inout"},
		{"kind": "scalar", "name": "n", "dtype": "i32", "value": -3},
		{"kind": "scalar", "dtype": "f32", "value": "-Infinity"},
		{"kind": "scalar", "dtype": "bool", "value": true}
	],
	"expected": [
		{"name": "y", "file": "sub/y.bin"},
		{"name": "x", "file": "x.bin", "match": "ulp", "ulp": 2, "abs": 1e-3},
		{"name": "x", "file": "x.bin", "match": "bits", "nan_any": true}
	]
}`

func TestParse(t *testing.T) {
	c, err := Parse("case.json", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if c.PTX != "softmax.ptx" || c.Entry != "softmax" || c.Grid != [3]int{3, 1, 1} || c.Block != [3]int{64, 2, 1} ||
		c.DynamicShared != 128 || len(c.Args) != 6 || len(c.Expected) != 3 {
		t.Fatalf("Parse = %+v", c)
	}
	x, y, third := c.Args[0], c.Args[1], c.Args[2]
	if x.Name != "x" || x.Role != In || x.DType != dtype.Float32 || x.Shape.String() != "[2,3]" || x.File != "x.bin" ||
		x.Uninitialised() || !slices.Equal(x.Valid, [][2]int{{3, 2}, {0, 2}}) {
		t.Errorf("args[0] = %+v", x)
	}
	if y.DType != dtype.Float16 || y.Shape.Elems() != 1 || !y.Uninitialised() || !y.Role.Written() {
		t.Errorf("args[1] = %+v", y)
	}
	if third.Name != "arg3" || third.DType != dtype.BFloat16 || third.Shape.Elems() != 0 {
		t.Errorf("args[2] = %+v", third)
	}
	for i, want := range map[int]string{3: "\xfd\xff\xff\xff", 4: "\x00\x00\x80\xff", 5: "\x01"} {
		if a := c.Args[i]; a.IsTensor() || string(a.Value) != want {
			t.Errorf("args[%d] = %+v, want the value %x", i, a, want)
		}
	}
	for i, want := range []string{"equal bits", "within 2 ulp or 0.001", "equal bits, any NaN for a NaN"} {
		if got := c.Expected[i].Rule(); got != want {
			t.Errorf("rule of expected[%d] is %q, want %q", i, got, want)
		}
	}
	if c, err := Parse("", []byte(`{"grid":[1],"block":[1]}`)); err != nil || c.PTX != "kernel.ptx" {
		t.Errorf("the smallest launch file: %+v, %v", c, err)
	}
}

func TestParseFaults(t *testing.T) {
	arg := func(text string) string { return `{"grid":[1],"block":[1],"args":[` + text + `]}` }
	tensor := func(text string) string { return arg(`{"kind":"tensor",` + text + `}`) }
	expected := func(text string) string {
		return `{"grid":[1],"block":[1],"args":[{"kind":"tensor","name":"y","dtype":"f32","shape":[2],"role":"out"}],` +
			`"expected":[{` + text + `}]}`
	}
	for _, tt := range []struct {
		text string
		code diag.Code
		say  string
	}{
		{"", Syntax, "case.json:1:1: unexpected end"},
		{"{\n  \"grid\": [1,\n  NaN]}", Syntax, "case.json:3:3: invalid character 'N'"},
		{`[]`, BadKey, "the launch file is not an object"},
		{`null`, BadKey, "the launch file is not an object"},
		{`{"block":[1]}`, BadKey, "grid is missing"},
		{`{"grid":[],"block":[1]}`, BadKey, "grid has 0 numbers"},
		{`{"grid":[1,1,1,1],"block":[1]}`, BadKey, "grid has 4 numbers"},
		{`{"grid":[1.5],"block":[1]}`, BadKey, "grid must be a list of whole numbers"},
		{`{"grid":[0],"block":[1]}`, BadSize, "x is from 1 to 2147483647"},
		{`{"grid":[1,65536],"block":[1]}`, BadSize, "y is from 1 to 65535"},
		{`{"grid":[1],"block":[1,1,65]}`, BadSize, "z is from 1 to 64"},
		{`{"grid":[1],"block":[32,32,2]}`, BadSize, "2048 threads"},
		{`{"grid":[9223372036854775807],"block":[1]}`, BadSize, "x is from 1"},
		{`{"grid":[1],"block":[1],"dynamic_shared":-1}`, BadSize, "from 0 to 1073741824"},
		{`{"grid":[1],"block":[1],"dynamic_shared":1073741825}`, BadSize, "from 0 to 1073741824"},
		{`{"grid":[1],"block":[1],"ptx":""}`, BadKey, "ptx is empty"},
		{`{"grid":[1],"block":[1],"entry":7}`, BadKey, "entry must be a string"},
		{`{"grid":[1],"block":[1],"args":{}}`, BadKey, "args must be a list"},
		{`{"grid":[1],"block":[1],"expected":7}`, BadKey, "expected must be a list"},
		{"{\"grid\":[1],\n  \"shared\":4, \"block\":[1]}", BadKey, "case.json:2:3: shared is not a key of launch files"},
		{`{"Grid":[1],"block":[1]}`, BadKey, "case.json:1:2: Grid is not a key of launch files"},
		{`{"grid":[1],"block":[1] , "grid":[2]}`, BadKey, "case.json:1:27: grid stands there twice, before at line 1"},
		{"{\"grid\":[1],\"block\":[1],\"args\":[7,\n {\"kind\":\"scalar\"}]}", BadKey, "args[0] is not an object"},
		{arg("{\"kind\":\"scalar\",\n\n  \"dtype\":\"f32\",\n\"strides\":[1]}"), BadKey,
			"case.json:4:1: args[0].strides is not a key of launch files"},
		{arg(`{"kind":"scalar","dtype":"f32","dtype":"f64","value":1}`), BadKey,
			"case.json:1:64: args[0].dtype stands there twice, before at line 1"},
		{expected(`"name":"y","file":"y.bin","tolerance":1`), BadKey, "expected[0].tolerance is not a key of launch files"},
		{arg(`7`), BadKey, "args[0] is not an object"},
		{arg(`{}`), BadKey, "args[0].kind is missing"},
		{arg(`{"kind":"tensor"}`), BadKey, "args[0].dtype is missing"},
		{arg(`{"kind":"pointer","dtype":"f32"}`), BadKey, `args[0].kind is "pointer"`},
		{arg(`{"kind":"scalar","dtype":"f31"}`), BadKey, `args[0].dtype is "f31"`},
		{arg(`{"kind":"scalar","dtype":"f32"}`), BadKey, "args[0].value is missing"},
		{arg(`{"kind":"scalar","dtype":"f32","value":null}`), BadKey, "args[0].value is missing"},
		{arg(`{"kind":"scalar","dtype":"i8","value":128}`), BadScalar, `"128" is not a value of int8`},
		{arg(`{"kind":"scalar","dtype":"i32","value":1.5}`), BadScalar, `"1.5" is not a value of int32`},
		{arg(`{"kind":"scalar","dtype":"f32","value":[1]}`), BadScalar, `"[1]" is not a value of float32`},
		{tensor(`"dtype":"f32","role":"in"`), BadKey, "args[0].shape is missing"},
		{tensor(`"dtype":"f32","shape":[-1],"role":"in"`), "tensor-shape-dim", "args[0].shape: "},
		{tensor(`"dtype":"f64","shape":[2147483648],"role":"in"`), "tensor-byte-limit", "args[0].shape: "},
		{tensor(`"dtype":"f32","shape":[2]`), BadKey, "args[0].role is missing"},
		{tensor(`"dtype":"f32","shape":[2],"role":"input"`), BadKey, `args[0].role is "input"`},
		{tensor(`"dtype":"f32","shape":[2],"role":"in","file":"../x.bin"`), BadPath, `args[0].file is "../x.bin"`},
		{tensor(`"dtype":"f32","shape":[2],"role":"in","file":"/etc/passwd"`), BadPath, "beside the launch file"},
		{tensor(`"dtype":"f32","shape":[2],"role":"in","valid":[0,1]`), BadKey, "valid must be a list of pairs of whole"},
		{tensor(`"dtype":"f32","shape":[2],"role":"in","valid":[[0,1],[1]]`), BadKey, "valid has 1 numbers in part 1"},
		{tensor(`"dtype":"f32","shape":[2],"role":"in","valid":[[1,2]]`), BadKey,
			"valid has part 0 from 1 with 2 elements, the tensor has 2"},
		{tensor(`"dtype":"f32","shape":[2],"role":"in","valid":[[-1,1]]`), BadKey, "valid has part 0 from -1"},
		{arg(`{"kind":"tensor","name":"x","dtype":"f32","shape":[1],"role":"in"},` +
			`{"kind":"tensor","name":"x","dtype":"f32","shape":[1],"role":"in"}`), BadKey, `args[1].name is "x", as that`},
		{arg(`{"kind":"tensor","name":"x","dtype":"f32","shape":[1073741824],"role":"in"},` +
			`{"kind":"tensor","name":"y","dtype":"f32","shape":[1073741825],"role":"in"}`), BadSize, "the tensors up to y"},
		{expected(`"file":"y.bin"`), BadKey, "expected[0].name is missing"},
		{expected(`"name":"z","file":"y.bin"`), BadKey, `expected[0].name is "z"`},
		{expected(`"name":"y"`), BadKey, "expected[0].file is missing"},
		{expected(`"name":"y","file":"../y.bin"`), BadPath, "expected[0].file"},
		{expected(`"name":"y","file":"y.bin","match":"close"`), BadKey, `expected[0].match is "close"`},
		{expected(`"name":"y","file":"y.bin","match":"ulp"`), BadKey, "expected[0].ulp is missing"},
		{expected(`"name":"y","file":"y.bin","match":"abs","abs":-1`), BadKey, "a limit is at least 0"},
	} {
		_, err := Parse("case.json", []byte(tt.text))
		if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.say) ||
			!strings.Contains(err.Error(), "case.json") {
			t.Errorf("Parse(%s) = %v, want %s with %q", tt.text, err, tt.code, tt.say)
		}
	}
}

// TestUnknownKeyHints: a key that nothing reads is refused with the nearest one that something does.
func TestUnknownKeyHints(t *testing.T) {
	for text, want := range map[string]string{
		`{"grids":[1]}`: "did you mean grid?",
		`{"author":"x"}`: "free text goes into notes; the other keys are ptx, entry, grid, block, dynamic_shared, memory, " +
			"args, expected",
	} {
		if _, err := Parse("case.json", []byte(text)); diag.HintOf(err) != want {
			t.Errorf("hint of %s is %q, want %q", text, diag.HintOf(err), want)
		}
	}
}

func TestScalar(t *testing.T) {
	for _, tt := range []struct {
		d    dtype.DType
		text string
		want uint64
		bad  bool
	}{
		{d: dtype.Int32, text: "-1", want: 0xffffffff},
		{d: dtype.Int32, text: "-0x10", want: 0xfffffff0},
		{d: dtype.Uint64, text: "18446744073709551615", want: math.MaxUint64},
		{d: dtype.Uint64, text: "0xFFFFFFFFFFFFFFFF", want: math.MaxUint64},
		{d: dtype.Uint8, text: "256", bad: true},
		{d: dtype.Uint8, text: "-1", bad: true},
		{d: dtype.Int64, text: "010", want: 10},
		{d: dtype.Float32, text: "0.1", want: 0x3dcccccd},
		// Halfway between two float32 but for its last digit: by way of float64 it would round down, to even.
		{d: dtype.Float32, text: "1.000000059604644775390626", want: 0x3f800001},
		{d: dtype.Float32, text: "1e39", want: 0x7f800000},
		{d: dtype.Float16, text: "1.5", want: 0x3e00},
		{d: dtype.BFloat16, text: "nan", want: 0x7fc0},
		{d: dtype.Float64, text: "-0", want: 1 << 63},
		{d: dtype.Float64, text: "one", bad: true},
		{d: dtype.Bool, text: "False", want: 0},
		{d: dtype.Bool, text: "2", bad: true},
	} {
		b, err := Scalar(tt.d, tt.text)
		if tt.bad {
			if diag.CodeOf(err) != BadScalar {
				t.Errorf("Scalar(%s, %s) = %x, %v, want an error", tt.d, tt.text, b, err)
			}
			continue
		}
		if err != nil || len(b) != tt.d.Size() || tt.d.Load(b) != tt.want {
			t.Errorf("Scalar(%s, %s) = %x, %v, want %#x", tt.d, tt.text, b, err, tt.want)
		}
	}
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func words(list ...uint32) []byte {
	var b []byte
	for _, w := range list {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "case.json", []byte(good))
	write(t, dir, "x.bin", words(1, 2, 3, 4, 5, 6))
	write(t, dir, "sub/y.bin", []byte{1, 2})
	c, err := Read(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if c.PTX != filepath.Join(dir, "softmax.ptx") {
		t.Errorf("PTX is %s", c.PTX)
	}
	if got := c.Args[0].Tensor().Bits(1, 2); got != 6 {
		t.Errorf("x[1,2] has the bits %#x, want 6", got)
	}
	if y := c.Args[1]; len(y.Data) != 2 || !dtype.Float16.IsNaN(dtype.Float16.Load(y.Data)) {
		t.Errorf("uninitialised memory is %x, want a NaN", y.Data)
	}
	if a := c.Args[2]; a.Data == nil || len(a.Data) != 0 {
		t.Errorf("an empty tensor has the data %#v, want none but not nil", a.Data)
	}
}

// TestReadFaults: what is wrong with files, among it ways out of the directory of the launch file.
func TestReadFaults(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret.bin", words(1, 2))
	write(t, dir, "in/short.bin", words(1))
	if err := os.Symlink("../secret.bin", filepath.Join(dir, "in", "link.bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "in", "dir.bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct {
		code diag.Code
		say  string
	}{
		"missing.bin": {Unreadable, "no such file"},
		"short.bin":   {BadData, "has 4 bytes, float32[2] has 8"},
		"link.bin":    {Unreadable, "escapes"},
		"dir.bin":     {Unreadable, "not a regular file"},
	} {
		write(t, dir, "in/case.json", []byte(`{"grid":[1],"block":[1],"args":[{"kind":"tensor","name":"x","dtype":"f32",`+
			`"shape":[2],"role":"in","file":"`+file+`"}]}`))
		_, err := Read(filepath.Join(dir, "in", "case.json"))
		if diag.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.say) {
			t.Errorf("%s: %v, want %s with %q", file, err, want.code, want.say)
		}
	}
	if _, err := Read(filepath.Join(dir, "nothing.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a launch file that is not there: %v", err)
	}
	if _, err := Read(dir); diag.CodeOf(err) != Unreadable {
		t.Errorf("a directory as launch file: %v", err)
	}
}

func TestCompare(t *testing.T) {
	const nan, otherNaN, one, next, inf, largest = 0x7fc00000, 0x7fffffff, 0x3f800000, 0x3f800001, 0x7f800000, 0x7f7fffff
	none := math.NaN()
	bits := Expected{Match: "bits", ULP: none, Abs: none}
	anyNaN := Expected{Match: "bits", NaNAny: true, ULP: none, Abs: none}
	ulp, abs := Expected{Match: "ulp", ULP: 1, Abs: none}, Expected{Match: "abs", ULP: none, Abs: 0.5}
	both := Expected{Match: "ulp", ULP: 1, Abs: 0.5}
	for _, tt := range []struct {
		name      string
		e         Expected
		got, want uint32
		right     bool
	}{
		{"bits: equal", bits, one, one, true},
		{"bits: next", bits, next, one, false},
		{"bits: zeros", bits, 1 << 31, 0, false},
		{"bits: NaN", bits, nan, otherNaN, false},
		{"bits: same NaN", bits, nan, nan, true},
		{"any NaN", anyNaN, nan, otherNaN, true},
		{"any NaN: number", anyNaN, nan, one, false},
		{"any NaN: next", anyNaN, next, one, false},
		{"ulp: next", ulp, next, one, true},
		{"ulp: two", ulp, next + 1, one, false},
		{"ulp: zeros", ulp, 1 << 31, 0, true},
		{"ulp: NaN", ulp, nan, otherNaN, true},
		{"ulp: NaN for a number", ulp, nan, one, false},
		{"ulp: a number for NaN", ulp, one, nan, false},
		{"ulp: infinities", ulp, inf, inf | 1<<31, false},
		{"abs: 0.5", abs, math.Float32bits(1.5), one, true},
		{"abs: 0.75", abs, math.Float32bits(1.75), one, false},
		{"abs: infinity", abs, inf, largest, false},
		{"abs: same infinity", abs, inf, inf, true},
		{"abs: NaN", abs, nan, one, false},
		{"both: by ulp", both, math.Float32bits(1e30) + 1, math.Float32bits(1e30), true},
		{"both: by abs", both, math.Float32bits(1.25), one, true},
		{"both: neither", both, math.Float32bits(1e30) + 2, math.Float32bits(1e30), false},
	} {
		e := tt.e
		e.want = words(one, tt.want)
		a := &Arg{DType: dtype.Float32, Shape: []int{1, 2}, Role: Out, Data: words(one, tt.got)}
		c := e.Compare(a)
		if right := c.Wrong == 0; right != tt.right || c.Elems != 2 || !right && !slices.Equal(c.Index, []int{0, 1}) {
			t.Errorf("%s: %+v, want right = %v", tt.name, c, tt.right)
		}
	}
}

// TestWorst: the worst element is named, with values that people can read.
func TestWorst(t *testing.T) {
	e := Expected{Match: "bits", want: words(1, 2, 3, 0x80000000)}
	a := &Arg{DType: dtype.Int32, Shape: []int{2, 2}, Role: Out, Data: words(1, 4, 3, 0x7fffffff)}
	c := e.Compare(a)
	if c.Wrong != 2 || !slices.Equal(c.Index, []int{1, 1}) || c.Got != "2147483647" || c.Want != "-2147483648" ||
		c.ULP != 1<<32-1 || c.Abs != 1<<32-1 {
		t.Errorf("Compare = %+v", c)
	}
	e = Expected{Match: "bits", want: words(0x3f800000, 0x7f800000)}
	a = &Arg{DType: dtype.Float32, Shape: []int{2}, Role: Out, Data: words(0x7fc00000, 0x7f7fffff)}
	if c := e.Compare(a); c.Got != "NaN (0x7fc00000)" || c.Want != "1" || c.ULP != math.MaxUint64 {
		t.Errorf("Compare = %+v", c)
	}
}

// FuzzParse: text from anywhere gives a launch within the limits or an error with a code, and reads no file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"grid":[1],"block":[1],"args":[{"kind":"scalar","dtype":"u64","value":"0xff"}]}`))
	f.Add([]byte(`{"grid":[1,2,3],"block":[1024],"args":[{"kind":"tensor","dtype":"f8","shape":[],"role":"in"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("case.json", text)
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Errorf("Parse(%q): error without a code: %v", text, err)
			}
			return
		}
		if CheckSize("grid", c.Grid) != nil || CheckSize("block", c.Block) != nil || CheckShared(c.DynamicShared) != nil {
			t.Errorf("Parse(%q) = %+v, beyond the limits", text, c)
		}
		for i := range c.Args {
			a := &c.Args[i]
			if a.IsTensor() == (a.Value != nil) || a.File != "" && !filepath.IsLocal(a.File) ||
				!a.IsTensor() && len(a.Value) != a.DType.Size() {
				t.Errorf("Parse(%q): argument %+v", text, a)
			}
		}
		for i := range c.Expected {
			if e := &c.Expected[i]; c.Arg(e.Name) == nil || !filepath.IsLocal(e.File) {
				t.Errorf("Parse(%q): expected %+v", text, e)
			}
		}
	})
}
