//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// This file implements attacks with parts and with images of tensors.

// safetensors is an image with a header as it is given.
func safetensors(header string, data []byte) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + string(data)
}

// tensorHeader is the header of one tensor.
func tensorHeader(name, dtype, shape string, begin, end any) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":[%s],"data_offsets":[%v,%v]}`, name, dtype, shape, begin, end)
}

// judged submits images as outputs of a case of 4 elements.
func judged(ok func(reply) error, images ...string) func(*testing.T, *victim) {
	return func(t *testing.T, v *victim) {
		for _, image := range images {
			for _, path := range []string{"/v1/submit", "/v1/gradients"} {
				want(t, path+" "+image[:min(len(image), 200)], v.send(request(path, part(object("case", reluCase), image))), ok)
			}
			r := v.send(request("/v1/compare", part(object("name", "x"), image)))
			want(t, "/v1/compare "+image[:min(len(image), 200)], r, ok)
		}
	}
}

// sized are 8 bytes that say how long something is, and a header behind them.
func sized(n uint64, header string) string {
	return string(binary.LittleEndian.AppendUint64(nil, n)) + header
}

const fine = `"output":{"dtype":"F32","shape":[1,1,4],"data_offsets":[0,16]}`

var sixteen = make([]byte, 16)

var tensorAttacks = []attack{
	{name: "images with headers of 2^63 bytes", sends: "images that claim longer headers than they have",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			judged(refused, sized(1<<63, "{}"), sized(math.MaxUint64, "{}"), sized(math.MaxUint64-7, "{}"), sized(1<<40, "{}"),
				sized(3, "{}"), sized(0, ""), sized(1, "{"), "", "\x00\x00", sized(1<<63-1, "{"+fine+"}"))(t, v)
		}},
	{name: "images with overlapping tensors", sends: "tensors that share bytes, leave gaps or lie outside",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			judged(refused,
				safetensors("{"+fine+","+tensorHeader("more", "F32", "4", 0, 16)+"}", sixteen),
				safetensors("{"+fine+","+tensorHeader("more", "F32", "4", 8, 24)+"}", make([]byte, 24)),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", 16, 32)+"}", make([]byte, 32)),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", 0, 1<<40)+"}", sixteen),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", 16, 0)+"}", sixteen),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", -16, 0)+"}", sixteen),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", "18446744073709551600", "18446744073709551616")+"}",
					sixteen),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", 0, "9223372036854775807")+"}", sixteen),
				safetensors("{"+tensorHeader("output", "F32", "1,1,4", "0.5", "16.5")+"}", sixteen),
				safetensors("{"+fine+"}", make([]byte, 17)), safetensors("{"+fine+"}", sixteen[:15]))(t, v)
		}},
	{name: "images with shapes that overflow", sends: "shapes whose products are 0 or small modulo 2^64",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			judged(refused, overflowing("4294967296,4294967296", "4294967296,4294967296,1,1", "9223372036854775807,2",
				"-1,-4", "2147483648,2147483648,4", "18446744073709551616", "1e1", repeat("1,", 1<<20)+"4",
				"4611686018427387905,4", "0,9223372036854775807,9223372036854775807", "[4]", `"4"`, "null")...)(t, v)
		}},
	{name: "images with odd names", sends: "names twice, types that are none, headers that nest", holds: "refused",
		do: func(t *testing.T, v *victim) {
			judged(refused,
				safetensors("{"+fine+","+fine+"}", sixteen),
				safetensors("{"+tensorHeader("output", "F31", "1,1,4", 0, 16)+"}", sixteen),
				safetensors("{"+tensorHeader("output", "", "1,1,4", 0, 16)+"}", sixteen),
				safetensors(repeat("[", 1<<20), sixteen), safetensors(`{"__metadata__":`+repeat(`{"a":`, 5<<20)+`1}`, sixteen),
				safetensors("null", sixteen), safetensors("\xff\xfe{}", sixteen), safetensors("{"+fine+"}{}", sixteen))(t, v)
		}},
	{name: "images with many tensors", sends: "20,000 tensors of no bytes", holds: "refused, within memory",
		do: func(t *testing.T, v *victim) {
			judged(unharmed, millionTensors())(t, v)
		}, long: true},
	{name: "parts with lengths that lie", sends: "parts whose header or image is longer than what comes",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			cut := func(n uint32, rest string) string { return string(binary.LittleEndian.AppendUint32(nil, n)) + rest }
			for _, path := range []string{"/v1/submit", "/v1/submissions", "/v1/gradients", "/v1/compare", "/v1/emulate"} {
				posts(path, refused, "", "\x01", cut(math.MaxUint32, "{}"), cut(1<<31, "{}"), cut(16<<20, "{}"), cut(3, "{}"),
					cut(2, "{}"), cut(2, "{}")+"\x00\x00\x00", cut(2, "{}")+sized(1<<63, ""), cut(2, "{}")+sized(math.MaxUint64, ""),
					cut(2, "{}")+sized(8<<30, "x"), cut(2, "{}")+sized(1, ""), cut(0, "")[:3],
					cut(2, "[]")+sized(0, ""), cut(4, "null")+sized(0, ""), cut(1, "{")+sized(0, ""))(t, v)
			}
		}},
	{name: "submissions of a million parts", sends: "a million empty parts, and the same part 20,000 times",
		holds: "refused or judged within memory", do: func(t *testing.T, v *victim) {
			posts("/v1/submissions", unharmed,
				repeat(part("{}", ""), 14_000_000)+"\x00\x00\x00\x00",
				repeat(part(`{"op":"relu"}`, ""), 500_000)+"\x00\x00\x00\x00")(t, v)
		}, long: true},
	{name: "values that are no numbers", sends: "tolerances, times and kwargs that no submission has", holds: "no pass",
		do: oddSubmissions},
	{name: "outputs of another case", sends: "outputs of other sizes, types and names than the case has",
		holds: "no pass", do: otherOutputs},
	{name: "findings without end", sends: "a finding of 8 MiB, and 100,000 findings", holds: "cut or refused",
		do: func(t *testing.T, v *victim) {
			image := safetensors("{"+fine+"}", sixteen)
			one := `{"kind": "overrun", "name": "\u001b[2J", "sentence": "s"},`
			for _, header := range []string{
				`{"case": "` + reluCase + `", "findings": [` + repeat(one, 6<<20) + `{"kind": "race", "sentence": "s"}]}`,
				`{"case": "` + reluCase + `", "findings": [{"kind": "overrun", "sentence": "` + repeat("s", 8<<20) + `"}]}`,
				`{"case": "` + reluCase + `", "findings": [{"kind": "` + repeat("k", 8<<20) + `", "sentence": "s"}]}`,
				`{"case": "` + reluCase + `", "failure": {"reason": "raised", "trace": "` + repeat("t", 8<<20) + `"}}`,
			} {
				r := v.send(request("/v1/submit", part(header, image)))
				if len(r.body) > 2<<20 {
					t.Errorf("%.80q: the answer has %d bytes", header, len(r.body))
				}
				want(t, header[:200], r, unharmed)
			}
		}},
}

// overflowing are images with an output of each shape.
func overflowing(shapes ...string) (list []string) {
	for _, shape := range shapes {
		list = append(list, safetensors("{"+tensorHeader("output", "F32", shape, 0, 16)+"}", sixteen),
			safetensors("{"+tensorHeader("output", "F32", shape, 0, 0)+"}", nil))
	}
	return list
}

func millionTensors() string {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, `,"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, i)
	}
	return safetensors("{"+b.String()[1:]+"}", nil)
}

// oddSubmissions: a header that asks for mercy gets none: the output is wrong, and no tolerance that is a number says
// otherwise.
func oddSubmissions(t *testing.T, v *victim) {
	wrong := safetensors("{"+fine+"}", []byte("\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x00\x00\xc0\x7f\x00\x00\xc0\x7f"))
	for _, more := range []string{`"tolerance": {"atol": -1, "rtol": -1}`, `"tolerance": {"atol": 1e999, "rtol": 0}`,
		`"tolerance": {"atol": 1e308, "rtol": 1e308}`, `"tolerance": {"atol": null}`, `"tolerance": {}`,
		`"time_ns": -9223372036854775808`, `"store": "../../x"`, `"kwargs": {"math": "\u0000"}`, `"bytes": [0, 16]`,
		`"bytes": [9223372036854775807, -1]`, `"seed": "7"`, `"dtype": "float8"`, `"verdict": "pass"`, `"passed": true`,
		`"result": {"verdict": "pass"}`, `"op": "gelu"`} {
		header := fmt.Sprintf(`{"case": %q, %s}`, reluCase, more)
		r := v.send(request("/v1/submit", part(header, wrong)))
		if strings.Contains(string(r.body), `"verdict":"pass"`) {
			t.Errorf("%s: NaN passes: %v", more, r)
		}
		want(t, header, r, unharmed)
	}
}

func otherOutputs(t *testing.T, v *victim) {
	for _, image := range []string{safetensors("{}", nil),
		safetensors("{"+tensorHeader("../../../tmp/x", "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("", "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader(repeat("n", 8<<20), "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("output/", "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("output", "F32", "0", 0, 0)+"}", nil),
		safetensors("{"+tensorHeader("output", "F32", "1,1,0", 0, 0)+"}", nil),
		safetensors("{"+tensorHeader("output", "F32", "1048576", 0, 4<<20)+"}", make([]byte, 4<<20)),
		safetensors("{"+tensorHeader("output", "U8", "16", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("output", "F64", "1,1,2", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("other", "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("expected/other", "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("inputs/input", "F32", "1,1,4", 0, 16)+"}", sixteen),
		safetensors("{"+tensorHeader("again/output", "F32", "1,1,4", 0, 16)+"}", sixteen)} {
		r := v.send(request("/v1/submit", part(object("case", reluCase), image)))
		if strings.Contains(string(r.body), `"verdict":"pass"`) {
			t.Errorf("%.200q passes: %v", image, r)
		}
		want(t, image, r, unharmed)
	}
}
