package ptxvm

import "gpuemu/internal/ptx"

// This file implements branches, calls, the end of threads and barriers.

var controlRows = []row{
	{syntax: "bra [.uni]", build: func(b *builder) { b.out.kind = branch }},
	{syntax: "ret [.uni]", build: func(b *builder) { b.out.kind = branch }},
	{syntax: "exit", build: func(b *builder) { b.out.kind = finish }},
	{syntax: "bar [.cta] .sync", build: buildBarrier},
	{syntax: "barrier [.cta] .sync [.aligned]", build: buildBarrier},
}

// buildBarrier makes a barrier: number a, number of threads b or all.
func buildBarrier(b *builder) {
	b.out.kind, b.out.a, b.out.b = barrier, b.src(0, "u32"), noRef
	if len(b.in.Args) > 1 {
		b.out.b = b.src(1, "u32")
	}
	if b.in.Args[0].Kind == ptx.VectorArg {
		b.fail(b.in.Pos, "", "%s is not executed here", b.in)
	}
}
