package ptxvm

import (
	"fmt"
	"math/big"
	"strings"
)

// This file implements cases of rows that lanes execute together, and of rows that change the way of control.

// everybody is the text that makes $i6 the mask of all lanes of a warp, which may have 31.
const everybody = "mov.u32 $i7, 32; sub.u32 $i7, $i7, $i1; mov.u32 $i6, -1; shr.u32 $i6, $i6, $i7; "

// column are the values of one operand in all lanes.
func column(x [][]uint64, i int) (list []uint64) {
	for lane := range x {
		list = append(list, x[lane][i])
	}
	return list
}

// lanesWith are the lanes for which f holds.
func lanesWith(list []uint64, f func(v uint64) bool) (mask uint64) {
	for lane, v := range list {
		if f(v) {
			mask |= 1 << lane
		}
	}
	return mask
}

// shuffleWant follows the table of PTX ISA 9.7.9.6 for operands b and c.
func shuffleWant(mode string, x [][]uint64, lane int) uint64 {
	by, how := int(x[lane][1]&31), int(x[lane][2])
	clamp, segment := how&31, how>>8&31
	most := lane&segment | clamp&(31-segment)
	from := map[string]int{"up": lane - by, "down": lane + by, "bfly": lane ^ by,
		"idx": lane&segment | by&(31-segment)}[mode]
	inside := from <= most
	if mode == "up" {
		inside = from >= most
	}
	if !inside {
		from = lane
	}
	return x[from][0]&0xffffffff<<1&0xffffffff | truth(inside)
}

func warpCases() []rowCase {
	var list []rowCase
	for _, mode := range []string{"up", "down", "bfly", "idx"} {
		list = append(list, rowCase{text: fmt.Sprintf("shfl.sync.%s.b32 $t32_0|$u0, $a, $b, $c, -1; "+
			"selp.b32 $d, 1, 0, $u0; shl.b32 $t32_0, $t32_0, 1; or.b32 $d, $d, $t32_0;", mode), dst: "b32", src: times(3, "b32"),
			full: true, warp: func(x [][]uint64, lane int) uint64 { return shuffleWant(mode, x, lane) }})
	}
	odd := func(v uint64) bool { return v&1 != 0 }
	yes := "and.b32 $a, $a, 1; setp.ne.b32 $u0, $a, 0; "
	for mode, f := range map[string]func(yes, all uint64) uint64{
		"all": func(yes, all uint64) uint64 { return truth(yes == all) },
		"any": func(yes, _ uint64) uint64 { return truth(yes != 0) },
		"uni": func(yes, all uint64) uint64 { return truth(yes == 0 || yes == all) },
	} {
		list = append(list, rowCase{text: everybody + yes + "vote.sync." + mode + ".pred $d, $u0, $i6;", dst: "pred",
			src: times(1, "b32"), warp: func(x [][]uint64, _ int) uint64 {
				return f(lanesWith(column(x, 0), odd), 1<<len(x)-1)
			}})
	}
	list = append(list, rowCase{text: everybody + yes + "vote.sync.ballot.b32 $d, !$u0, $i6;", dst: "b32",
		src: times(1, "b32"), warp: func(x [][]uint64, _ int) uint64 {
			return lanesWith(column(x, 0), func(v uint64) bool { return !odd(v) })
		}})
	for _, typ := range []string{"b32", "b64"} {
		few := "and." + typ + " $a, $a, 3; "
		same := func(x [][]uint64, lane int) uint64 {
			return lanesWith(column(x, 0), func(v uint64) bool { return v&3 == x[lane][0]&3 })
		}
		list = append(list, rowCase{text: everybody + few + "match.any.sync." + typ + " $d, $a, $i6;", dst: "b32",
			src: times(1, typ), warp: same},
			rowCase{text: everybody + few + "match.all.sync." + typ + " $d|$u0, $a, $i6;", dst: "b32", src: times(1, typ),
				warp: func(x [][]uint64, lane int) uint64 {
					if all := uint64(1)<<len(x) - 1; same(x, lane) == all {
						return all
					}
					return 0
				}})
	}
	for _, op := range []string{"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32",
		"xor.b32"} {
		name, typ, _ := strings.Cut(op, ".")
		list = append(list, rowCase{text: everybody + "redux.sync." + op + " $d, $a, $i6;", dst: "b32", src: times(1, typ),
			warp: func(x [][]uint64, _ int) uint64 {
				v := x[0][0]
				for _, other := range x[1:] {
					v = atomicWant(name, typ, false, v, other[0], 0)
				}
				return v
			}})
	}
	return append(list,
		rowCase{text: everybody + "elect.sync $d|$u0, $i6; @$u0 add.u32 $d, $d, 100;", dst: "b32", src: times(1, "b32"),
			warp: func(_ [][]uint64, lane int) uint64 { return 100 * truth(lane == 0) }},
		rowCase{text: "activemask.b32 $d;", dst: "b32", src: times(1, "b32"),
			warp: func(x [][]uint64, _ int) uint64 { return 1<<len(x) - 1 }},
		rowCase{text: everybody + "bar.warp.sync $i6; mov.b32 $d, $a;", dst: "b32", src: times(1, "b32"), want: first})
}

// first is the first operand: what an instruction leaves alone.
func first(x []uint64) uint64 { return x[0] }

// idle are instructions that change nothing here; what stands behind them is not lost.
var idle = []string{"membar.cta", "membar.gl", "membar.sys", "membar.proxy.alias", "fence.cta",
	"fence.cluster", "fence.gpu", "fence.sys", "fence.sc.gpu", "fence.acq_rel.gpu", "fence.acquire.gpu",
	"fence.release.gpu", "fence.proxy.alias", "fence.proxy.async", "fence.proxy.async.global",
	"fence.proxy.async.shared::cta", "fence.proxy.async.shared::cluster",
	"fence.mbarrier_init.release.cluster", "prefetch.L1 [$l1]", "prefetch.global.L2 [$l1]",
	"prefetch.local.L1 [$l1]", "prefetch.global.L2::evict_last [$l1]",
	"prefetch.global.L2::evict_normal [$l1]", "prefetchu.L1 [$l1]",
	"applypriority.L2::evict_normal [$l1], 128", "applypriority.global.L2::evict_normal [$l1], 128",
	"discard.L2 [$l2], 128", "discard.global.L2 [$l2], 128", "nanosleep.u32 $a", "griddepcontrol.wait",
	"griddepcontrol.launch_dependents", "setmaxnreg.inc.sync.aligned.u32 64",
	"setmaxnreg.dec.sync.aligned.u32 24", "pmevent 3", "pmevent.mask 3", "bar.sync 0", "bar.cta.sync 1",
	"barrier.sync 0", "barrier.cta.sync.aligned 3", "bra next; next:", "bra.uni next; next:",
	"barrier.cluster.arrive; barrier.cluster.wait", "barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire",
	"barrier.cluster.arrive.release.aligned; barrier.cluster.wait.aligned"}

func controlCases() []rowCase {
	var list []rowCase
	for _, text := range idle {
		list = append(list, rowCase{text: "mov.b32 $d, $a; " + strings.Replace(text+";", ":;", ":", 1), dst: "b32",
			src: times(1, "b32"), want: first})
	}
	for _, mods := range policyMods() {
		operands := map[string]string{"fractional": "", "range": ", [$l1], 128, 256", "cvt": ", $l1"}[mods[0]]
		list = append(list, rowCase{text: "createpolicy." + strings.Join(mods, ".") + " $l4" + operands +
			"; ld.global.L2::cache_hint.b32 $d, [$l1], $l4;", dst: "b32", src: times(1, "b32"), want: first})
	}
	for _, space := range []string{"global", "const", "local", "shared", "shared::cta", "shared::cluster", "param",
		"param::entry"} {
		list = append(list, rowCase{head: ".const .b32 table[1] = {7};", text: ".shared .b32 sh; .local .b32 lo; " +
			"cvta.shared.u64 $t64_0, sh; cvta.local.u64 $t64_1, lo; cvta.const.u64 $t64_2, table; cvta.param.u64 $t64_3, in; " +
			"setp.eq.b32 $u0, $a, 1; @$u0 mov.b64 $l1, $t64_0; setp.eq.b32 $u0, $a, 2; @$u0 mov.b64 $l1, $t64_1; " +
			"setp.eq.b32 $u0, $a, 3; @$u0 mov.b64 $l1, $t64_2; setp.eq.b32 $u0, $a, 5; @$u0 mov.b64 $l1, $t64_3; " +
			"isspacep." + space + " $d, $l1;", dst: "pred", src: times(1, "b32"), want: func(x []uint64) uint64 {
			is := map[uint64]string{1: "shared", 2: "local", 3: "const", 5: "param"}[x[0]]
			name, _, _ := strings.Cut(space, "::")
			return truth(is == name || is == "" && name == "global")
		}})
	}
	odd := "and.b32 $i5, $a, 1; setp.ne.b32 $u0, $i5, 0; "
	list = append(list,
		rowCase{text: odd + "mov.b32 $d, $a; @!$u0 exit;", dst: "b32", src: times(1, "b32"), want: onlyOdd},
		rowCase{text: odd + "mov.b32 $d, $a; @!$u0 ret;", dst: "b32", src: times(1, "b32"), want: onlyOdd},
		rowCase{text: "mov.b32 $d, $a; ret.uni;", dst: "b32", src: times(1, "b32"), want: func([]uint64) uint64 { return 0 }},
		rowCase{text: "and.b32 $i5, $a, 3; mov.b32 $d, 0; ts: .branchtargets t0, t1, t2, t3; brx.idx $i5, ts; " +
			"t0: add.u32 $d, $d, 1; t1: add.u32 $d, $d, 1; t2: add.u32 $d, $d, 1; t3: add.u32 $d, $d, 1;", dst: "b32",
			src: times(1, "b32"), want: func(x []uint64) uint64 { return 4 - x[0]&3 }},
		rowCase{text: "mov.b32 $d, 0; ts: .branchtargets t0, t1; brx.idx.uni 1, ts; t0: add.u32 $d, $d, 1; " +
			"t1: add.u32 $d, $d, $a;", dst: "b32", src: times(1, "b32"), want: first})
	for _, uni := range []string{"", ".uni"} {
		head := ".func (.param .b32 r) half(.param .b32 v) { .reg .b32 %x; ld.param.b32 %x, [v]; shr.u32 %x, %x, 1; " +
			"st.param.b32 [r], %x; ret; }"
		list = append(list, rowCase{head: head, text: "{ .param .b32 r0; .param .b32 v0; st.param.b32 [v0], $a; " +
			"call" + uni + " (r0), half, (v0); ld.param.b32 $d, [r0]; }", dst: "b32", src: times(1, "b32"),
			want: func(x []uint64) uint64 { return new(big.Int).Rsh(num(x[0], "u32"), 1).Uint64() }})
	}
	return append(list, reductionCases()...)
}

func onlyOdd(x []uint64) uint64 { return x[0] * (x[0] & 1) }

// policyMods are the modifiers of all rows of createpolicy.
func policyMods() (list [][]string) {
	for i := range memoryRows {
		if memoryRows[i].ops[0] == "createpolicy" {
			list = append(list, choices(&memoryRows[i])...)
		}
	}
	return list
}

// reductionCases are barriers that combine a predicate of all threads, and arrivals that nobody waits for.
func reductionCases() []rowCase {
	var list []rowCase
	odd := "and.b32 $i5, $a, 1; setp.ne.b32 $u0, $i5, 0; "
	ones := func(x [][]uint64) uint64 { return lanesWith(column(x, 0), func(v uint64) bool { return v&1 != 0 }) }
	for _, name := range []string{"bar.red.popc.u32", "bar.cta.red.popc.u32", "barrier.red.popc.u32",
		"barrier.cta.red.popc.aligned.u32"} {
		list = append(list, rowCase{text: odd + name + " $d, 2, $u0;", dst: "b32", src: times(1, "b32"),
			warp: func(x [][]uint64, _ int) (n uint64) {
				for lane := range x {
					n += x[lane][0] & 1
				}
				return n
			}})
	}
	for _, name := range []string{"bar.red.and.pred", "bar.cta.red.or.pred", "barrier.red.and.pred",
		"barrier.cta.red.or.aligned.pred", "barrier.red.or.pred"} {
		list = append(list, rowCase{text: odd + name + " $d, 2, $u0;", dst: "pred", src: times(1, "b32"),
			warp: func(x [][]uint64, _ int) uint64 {
				if strings.Contains(name, "and") {
					return truth(ones(x) == 1<<len(x)-1)
				}
				return truth(ones(x) != 0)
			}})
	}
	for _, name := range []string{"bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive.aligned"} {
		list = append(list, rowCase{text: "mov.b32 $d, $a; " + name + " 1, 64;", dst: "b32", src: times(1, "b32"),
			want: first})
	}
	return list
}
