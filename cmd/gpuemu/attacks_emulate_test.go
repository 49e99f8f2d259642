//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// This file implements attacks with launches of kernels.

// ptxHead begins a module.
const ptxHead = ".version 8.0\n.target sm_80\n.address_size 64\n"

// kernel is a module with one kernel without parameters.
func kernel(variables, body string) string {
	return ptxHead + variables + "\n.visible .entry k()\n{\n" + body + "\nret;\n}\n"
}

// launch is the header of a launch; more are further members, which replace those that are usual.
func launch(ptx string, more ...any) string {
	members := append([]any{"ptx", ptx, "grid", []int{1}, "block", []int{1}, "args", []any{}}, more...)
	return part(object(members...), "")
}

// launches sends launches and looks at each answer.
func launches(ok func(reply) error, list ...string) func(*testing.T, *victim) {
	return posts("/v1/emulate", ok, list...)
}

const endless = "again: bra again;"

// launchPeak is what a launch may have, half of the daemon's, and what the daemon has beside it.
const launchPeak = victimLimit/2 + usualPeak

var emulateAttacks = []attack{
	{name: "endless kernels", sends: "8 launches that never end, with the largest budget", holds: "the owner is served",
		do: func(_ *testing.T, v *victim) {
			for range 8 {
				_, _ = io.WriteString(v.dial(), request("/v1/emulate", launch(kernel("", endless), "budget", uint64(1)<<63)))
			}
		}},
	{name: "endless kernels given up", sends: "8 launches that never end, whose clients go",
		holds: "another launch runs",
		do: func(t *testing.T, v *victim) {
			for range 8 {
				conn, err := dialSocket(v.socket)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(conn, request("/v1/emulate", launch(kernel("", endless), "budget", uint64(1)<<63)))
				conn.Close()
			}
			if r := v.send(request("/v1/emulate", launch(kernel("", "")))); r.status != 200 {
				t.Errorf("a launch after those: %v", r)
			}
		}},
	{name: "endless within a budget", sends: "endless loops, endless barriers, printf and recursion without end",
		holds: "they end with their budget", do: func(t *testing.T, v *victim) {
			launches(unharmed,
				launch(kernel("", endless), "budget", 100_000), launch(kernel("", "again: bar.sync 0; bra again;"), "budget",
					100_000),
				launch(kernel("", "again: membar.gl; bra again;"), "budget", 100_000, "block", []int{1024}, "schedules", 4),
				launch(printing, "budget", 1_000_000), launch(recursive, "budget", 10_000_000), launch(kernel("", endless),
					"budget", 0,
					"grid", []int{2147483647, 65535, 65535}, "block", []int{1024}, "budget", 1_000_000))(t, v)
		}},
	{name: "shared memory of 500 MB", sends: "kernels with .shared of 500 MB, 4 GB, 2^63 bytes, dynamic of 2 GB",
		holds: "refused or found", do: func(t *testing.T, v *victim) {
			launches(unharmed,
				launch(kernel(".shared .align 16 .b8 s[500000000];", touch("s", "shared"))),
				launch(kernel(".shared .align 16 .b8 s[4294967296];", touch("s", "shared"))),
				launch(kernel(".shared .align 16 .b8 s[9223372036854775807];", touch("s", "shared"))),
				launch(kernel(".shared .align 16 .b8 s[500000000];", touch("s", "shared")), "grid", []int{65535}, "block",
					[]int{1024}),
				launch(kernel(".extern .shared .align 16 .b8 s[];", touch("s", "shared")), "dynamic_shared", 1<<30),
				launch(kernel("", ""), "dynamic_shared", int64(1)<<62), launch(kernel("", ""), "dynamic_shared", -1))(t, v)
		}},
	{name: "global arrays of 16 GB", sends: "eight .global arrays of 2 GB, one of 2^62, a product beyond 2^64",
		holds: "refused, or the memory of launches is kept to", peak: launchPeak, do: func(t *testing.T, v *victim) {
			launches(unharmed,
				launch(kernel(globals(8), touch("g0", "global"))),
				launch(kernel(globals(8), touch("g0", "global")), "memory", "1000GiB"),
				launch(kernel(".global .b8 g0[4611686018427387904];", touch("g0", "global"))),
				launch(kernel(".global .f64 g0[2305843009213693953];", touch("g0", "global"))),
				launch(kernel(".global .b32 g0[65536][65536][65536][65536];", touch("g0", "global"))),
				launch(kernel(".const .b8 g0[2000000000];", touch("g0", "const"))))(t, v)
		}},
	{name: "local memory of every thread", sends: "kernels with 500 KB and 2 GB of .local in 1,024 threads",
		holds: "refused, or the memory of launches is kept to", peak: launchPeak, do: func(t *testing.T, v *victim) {
			launches(unharmed,
				launch(kernel("", ".local .b8 l[500000];"+touch("l", "local")), "block", []int{1024}, "grid", []int{2}),
				launch(kernel("", ".local .b8 l[2000000000];"+touch("l", "local")), "block", []int{1024}),
				launch(kernel("", ".reg .b64 %rd<100000>;"), "block", []int{1024}))(t, v)
		}},
	{name: "declarations without end", sends: "2^31 registers, 20,000 variables, kernels, labels and parameters",
		holds: "refused, or executed within memory", do: func(t *testing.T, v *victim) {
			launches(unharmed,
				launch(kernel("", ".reg .b64 %rd<2147483647>;")), launch(kernel("", ".reg .b64 %rd<9223372036854775807>;")),
				launch(kernel(lines(".global .b8 v%d[4096];", 20_000), "")), launch(ptxHead+lines(
					".visible .entry k%d() { ret; }", 20_000)),
				launch(kernel("", lines("l%d:", 20_000))), launch(kernel("", lines(".reg .b32 %%r%d;", 20_000))),
				launch(ptxHead+".visible .entry k("+strings.TrimSuffix(lines(".param .u64 p%d,", 20_000), ",\n")+") { ret; }"))(t,
				v)
		}},
	{name: "text that nests", sends: "a million braces, parentheses, comments, names of 8 MiB, NUL", holds: "refused",
		do: func(t *testing.T, v *victim) {
			launches(refused, launch(kernel("", repeat("{", 1<<20))), launch(kernel("", "mov.u32 "+repeat("(", 1<<20))),
				launch(ptxHead+repeat("/*", 1<<20)), launch(kernel(".global .b8 "+repeat("[", 1<<20), "")),
				launch(kernel(".global .b32 g[] = "+repeat("{", 1<<20), "")), launch(repeat("a", 8<<20)), launch("\x00"+kernel("",
					"")),
				launch(kernel("", "add.u32 "+repeat("-", 1<<20)+"1;")), launch(ptxHead+".visible .entry k() {"+repeat("a:b:",
					1<<20)),
				launch(kernel("", ".loc "+repeat("9", 1<<20)+" 1 1;")), launch(strings.Replace(kernel("", ""), "8.0", repeat("9",
					1<<20), 1)))(t, v)
		}},
	{name: "grids and blocks", sends: "grids and blocks of 0, below 0, beyond those of GPUs, of 4 and no numbers",
		holds: "refused", do: func(t *testing.T, v *victim) {
			launches(refused, launchSizes()...)(t, v)
		}},
	{name: "the largest grid", sends: "a grid of 2^63 blocks with the usual budget", holds: "the owner is served",
		do: func(_ *testing.T, v *victim) {
			_, _ = io.WriteString(v.dial(), request("/v1/emulate", launch(kernel("", ""), "grid", []int{2147483647, 65535,
				65535},
				"block", []int{1024}, "schedules", 10_000)))
		}},
	{name: "tensors of launches",
		sends: "tensors of 2^62 elements, below zero, with products beyond 2^64, 4,097 of them",
		holds: "refused", do: func(t *testing.T, v *victim) {
			launches(refused, launchTensors()...)(t, v)
		}},
	{name: "options of launches", sends: "memory, schedules, budgets, checks and architectures that are none",
		holds: "refused", do: func(t *testing.T, v *victim) {
			launches(refused, launchOptions()...)(t, v)
		}},
	{name: "unknown keys of launches", sends: "keys that nobody reads, a key twice", holds: "refused",
		do: func(t *testing.T, v *victim) {
			launches(refused, launch(kernel("", ""), "candidate", "x"), launch(kernel("", ""), "env",
				map[string]string{"A": "b"}),
				launch(kernel("", ""), "args", []any{map[string]any{"kind": "scalar", "value": "1", "evil": 1}}),
				part(`{"ptx": "x", "ptx": "y", "grid": [1], "block": [1], "args": []}`, ""), part("{} {}", ""))(t, v)
		}},
	{name: "kernels to look at", sends: "PTX to lint that nests, is long, has a billion registers",
		holds: "refused or read",
		do: func(t *testing.T, v *victim) {
			for _, text := range []string{kernel("", repeat("{", 1<<20)), repeat("\n", 8<<20), kernel("",
				".reg .b64 %rd<2147483647>;"),
				ptxHead + lines(".visible .entry k%d() { ret; }", 500), kernel("", lines("add.u32 %%r%d, 1, 1;", 20_000)), "\x00",
				""} {
				want(t, text, v.send(request("/v1/lint", object("ptx", text, "kernel", "\x1b[2J"))), unharmed)
			}
		}},
	{name: "jumps without end", sends: "20,000 branches to and fro to lint and to execute", holds: "answered",
		do: func(t *testing.T, v *victim) {
			var b strings.Builder
			b.WriteString(".reg .pred %p;\nsetp.eq.u32 %p, 1, 2;\n")
			for i := range 5000 {
				fmt.Fprintf(&b, "l%d: @%%p bra l%d;\n@!%%p bra l%d;\n", i, (i*7919)%5000, (i*104729+1)%5000)
			}
			text := kernel("", b.String())
			want(t, "lint", v.send(request("/v1/lint", object("ptx", text))), unharmed)
			want(t, "emulate", v.send(request("/v1/emulate", launch(text, "budget", 10_000))), unharmed)
		}},
}

// touch stores to the first and to a far byte of a variable.
func touch(name, space string) string {
	return fmt.Sprintf("\n.reg .b64 %%t;\n.reg .b32 %%v;\nmov.u64 %%t, %s;\nmov.u32 %%v, 7;\nst.%s.u32 [%%t], %%v;\n"+
		"st.%s.u32 [%%t+400000], %%v;\n", name, space, space)
}

func globals(n int) string { return lines(".global .align 16 .b8 g%d[2000000000];", n) }

// lines are n lines, each with its number.
func lines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

// printing calls vprintf for ever.
var printing = ptxHead + `.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[9] = {37, 115, 37, 110, 27, 91, 50, 74, 0};
.visible .entry k()
{
.reg .b64 %f;
.reg .b32 %r;
mov.u64 %f, text;
again:
{
.param .b64 a0; .param .b64 a1; .param .b32 r0;
st.param.b64 [a0], %f;
st.param.b64 [a1], 0;
call.uni (r0), vprintf, (a0, a1);
ld.param.b32 %r, [r0];
}
bra again;
}
`

// recursive calls itself for ever.
const recursive = ptxHead + `.func f();
.func f()
{
.local .b8 l[4096];
call.uni f;
ret;
}
.visible .entry k()
{
call.uni f;
ret;
}
`

func launchSizes() (list []string) {
	for _, size := range []string{"[]", "[0]", "[-1]", "[1, 0, 1]", "[1, 1, 1, 1]", "[9223372036854775807]", "[1.5]",
		`["1"]`,
		"[2147483648]", "[1, 65536]", "[99999999999999999999]", "null", "{}", "[" + repeat("1,", 1<<20) + "1]"} {
		list = append(list, part(fmt.Sprintf(`{"ptx": %q, "grid": %s, "block": [1], "args": []}`, kernel("", ""), size),
			""))
	}
	for _, size := range []string{"[0]", "[-1]", "[1025]", "[1024, 2]", "[1, 1, 65]",
		"[2147483647, 2147483647, 2147483647]",
		"[4294967296, 4294967296, 4294967296]"} {
		list = append(list, part(fmt.Sprintf(`{"ptx": %q, "grid": [1], "block": %s, "args": []}`, kernel("", ""), size),
			""))
	}
	return list
}

// onePointer is a module whose kernel has one address as its parameter.
const onePointer = ptxHead + ".visible .entry k(.param .u64 p)\n{\nret;\n}\n"

func launchTensors() (list []string) {
	arg := func(members string) string {
		return part(fmt.Sprintf(`{"ptx": %q, "grid": [1], "block": [1], "args": [%s]}`, onePointer, members), "")
	}
	for _, shape := range []string{"[4611686018427387904]", "[-1]", "[4294967296, 4294967296]",
		"[2147483648, 2147483648, 4]",
		"[9223372036854775807]", "[1073741824, 4]", "[" + repeat("1,", 1<<20) + "1]", "[99999999999999999999]"} {
		list = append(list, arg(`{"kind": "tensor", "dtype": "float32", "role": "out", "shape": `+shape+`}`))
	}
	for _, members := range []string{`{"kind": "tensor", "dtype": "float32", "role": "out", "storage": "nothing"}`,
		`{"kind": "tensor", "dtype": "float32", "role": "root", "shape": [1]}`, `{"kind": "file", "value": "/etc/passwd"}`,
		`{"kind": "tensor", "dtype": "float32", "role": "out", "shape": [1], "address": -1}`,
		`{"kind": "tensor", "dtype": "float32", "role": "out", "shape": [1], "address": 9223372036854775807}`,
		`{"kind": "scalar", "dtype": "int32", "value": "99999999999999999999"}`, `{"kind": "scalar", "value": "` + repeat(
			"9", 1<<20) + `"}`,
		`{"kind": "scalar", "dtype": "float32", "value": "` + repeat("1e", 1<<20) + `"}`, `{}`, `null`,
		repeat(`{"kind": "scalar", "value": "1"},`, 1<<20) + `{}`} {
		list = append(list, arg(members))
	}
	image := safetensors("{"+tensorHeader("x", "F32", "4", 0, 16)+"}", sixteen)
	for _, more := range []string{`"offset": -1`, `"offset": 9223372036854775807`,
		`"valid": [[9223372036854775807, 9223372036854775807]]`,
		`"valid": [[-1, 1]]`, `"valid": [[1, 9223372036854775807]]`, `"valid": [[]]`, `"valid": [` + repeat("[0,1],",
			6<<20) + `[0,1]]`} {
		list = append(list, part(fmt.Sprintf(
			`{"ptx": %q, "grid": [1], "block": [1], "args": [{"kind": "tensor", "dtype": "float32",`+
				`"role": "in", "storage": "x", %s}]}`, onePointer, more), image))
	}
	return list
}

func launchOptions() (list []string) {
	for _, more := range []string{`"memory": "99999999999999999999GiB"`, `"memory": "-1"`, `"memory": "1e9GiB"`,
		`"memory": "` + repeat("9", 1<<20) + `"`,
		`"schedules": -1`, `"schedules": 10001`, `"schedules": 9223372036854775807`, `"budget": -1`,
		`"budget": 18446744073709551616`,
		`"checks": "` + repeat("race,", 1<<20) + `x"`, `"checks": "everything"`, `"arch": "sm_1"`,
		`"arch": "sm_80; touch /tmp/x"`, `"sfu": "best"`,
		`"entry": "` + repeat("k", 1<<20) + `"`, `"entry": "nothing"`, `"file": "/dev/zero"`, `"args": [], "args": {}`,
		`"bytes": [0, 16]`,
		`"shared": "/dev/zero"`} {
		list = append(list, part(fmt.Sprintf(`{"ptx": %q, "grid": [1], "block": [1], %s}`, kernel("", ""), more), ""))
	}
	return list
}
