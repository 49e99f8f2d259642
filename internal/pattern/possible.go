package pattern

// This file implements what PTX allows of modifiers together (PTX ISA 9.0, chapter 9): which opcodes take a memory, a
// vector or sync, and in which order memory, vector and type stand. What else belongs together is not checked.

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// family is a group of modifiers that only some opcodes take.
type family struct {
	what    string
	has     func(mod string) bool
	opcodes []string
}

var families = []family{
	{"a memory", isSpace, strings.Fields(`ld ldu st atom red multimem prefetch prefetchu cp cvta isspacep mapa getctarank
		ldmatrix stmatrix wmma mbarrier tensormap fence discard applypriority createpolicy tcgen05 clusterlaunchcontrol`)},
	{"a vector", isVector, strings.Fields("ld ldu st atom red multimem tex tld4 suld sust")},
	{"sync", func(mod string) bool { return mod == "sync" }, strings.Fields(`bar barrier shfl vote match redux elect mma
		wmma wgmma ldmatrix stmatrix movmatrix tcgen05 setmaxnreg tensormap`)},
}

func isSpace(mod string) bool {
	base, _, _ := strings.Cut(mod, "::")
	return slices.Contains([]string{"global", "shared", "local", "param", "const"}, base)
}

func isVector(mod string) bool { return slices.Contains([]string{"v2", "v4", "v8"}, mod) }

// plainTypes are the types that stand behind memory and vector wherever an instruction has those.
var plainTypes = strings.Fields("s8 s16 s32 s64 u8 u16 u32 u64 b8 b16 b32 b64 b128 f16 f16x2 f32 f64 bf16 bf16x2")

// stage is where a modifier stands among memory, vector and type; -1 for one that is none of them.
func stage(mod string) int {
	switch {
	case isSpace(mod):
		return 0
	case isVector(mod):
		return 1
	case slices.Contains(plainTypes, mod):
		return 2
	}
	return -1
}

// checkTogether refuses modifiers of PTX that no instruction of the pattern's opcode has, or has in this order.
func (p *Pattern) checkTogether() error {
	last := ""
	for _, m := range p.mods {
		if strings.Contains(m, "*") {
			continue
		}
		for _, f := range families {
			if f.has(m) && !slices.ContainsFunc(f.opcodes, func(op string) bool { return glob(p.op, op) }) {
				return diag.Errorf(Impossible, "those that have one: "+strings.Join(f.opcodes, ", "),
					"pattern %q can match nothing: no %s of PTX has %s among its modifiers", p.text, p.op, f.what)
			}
		}
		at := stage(m)
		switch {
		case at < 0:
			continue
		case last != "" && at < stage(last):
			return diag.Errorf(Impossible, fmt.Sprintf("write %s", p.sorted()),
				"pattern %q can match nothing: %s stands before %s in PTX", p.text, m, last)
		}
		last = m
	}
	return nil
}

// sorted is the pattern with memory, vector and type in the order of PTX.
func (p *Pattern) sorted() string {
	mods := slices.Clone(p.mods)
	var at []int
	var list []string
	for i, m := range mods {
		if stage(m) >= 0 {
			at, list = append(at, i), append(list, m)
		}
	}
	slices.SortStableFunc(list, func(x, y string) int { return stage(x) - stage(y) })
	for i, place := range at {
		mods[place] = list[i]
	}
	return strings.Join(append([]string{p.op}, mods...), ".")
}

// fitsPTX reports whether a modifier of PTX fits a word, by any of its names: shared is that of the block where nothing
// else is said, and stands in a pattern for all shared memory; so does param for all parameters.
func fitsPTX(word, mod string) bool {
	if glob(word, mod) {
		return true
	}
	base, _, qualified := strings.Cut(mod, "::")
	switch {
	case base != "shared" && base != "param":
		return false
	case qualified:
		return glob(word, base)
	}
	return mod == "shared" && glob(word, "shared::cta")
}

// barrierNames are the opcodes and all modifiers of a barrier of a block: bar.sync is barrier.cta.sync.aligned. ok is
// false of everything else, such as bar.warp and barrier.cluster.
func barrierNames(op, rest string) (mods string, ok bool) {
	if op != "bar" && op != "barrier" {
		return "", false
	}
	list := strings.Split(strings.TrimPrefix(rest, "cta."), ".")
	if !slices.Contains([]string{"sync", "arrive", "red"}, list[0]) {
		return "", false
	}
	if op == "bar" {
		end := slices.IndexFunc(list, func(m string) bool { return m == "u32" || m == "pred" })
		if end < 0 {
			end = len(list)
		}
		list = slices.Insert(list, end, "aligned")
	}
	return "cta." + strings.Join(list, "."), true
}
