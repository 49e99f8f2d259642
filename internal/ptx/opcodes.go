package ptx

import (
	"fmt"
	"strings"
)

// This file implements the tables of opcodes and modifiers: PTX ISA 9.0, chapter 9, and what is left of older versions.

// effect is what an instruction does with its first operand.
type effect uint8

const (
	reads   effect = iota // like all the others
	writes                // writes it
	updates               // reads and writes it
)

// opInfo is a row of the table of opcodes.
type opInfo struct {
	min, max int    // number of operands
	effect   effect // on the first operand
	// byMod lists effects that depend on the modifiers: the first that an instruction has decides.
	byMod []modEffect
}

type modEffect struct {
	mod    string
	effect effect
}

// Rows are: names, number of operands, effect; then modifiers with an effect of their own. w writes the first operand,
// r only reads it, u does both.
var opcodes = parseOpcodes(`
	exit ret trap brkpt membar griddepcontrol            0   r
	fence                                                0-3 r
	bra nanosleep pmevent prefetch prefetchu stackrestore setmaxnreg  1  r
	brx discard applypriority stmatrix sured sust        2   r
	call                                                 1-4 r
	bar barrier                                          0-4 r  red:w
	st red                                               2-4 r
	cp                                                   0-9 r
	tensormap                                            2-4 r
	mbarrier                                   1-4 r  arrive:w arrive_drop:w test_wait:w try_wait:w pending_count:w
	multimem                                             2-6 r  ld_reduce:w
	clusterlaunchcontrol                                 2-3 r  query_cancel:w
	tcgen05                                              0-12 r ld:w
	wgmma                                                0-10 r mma_async:u
	wmma                                                 2-4 r  load:w mma:w
	activemask stacksave                                 1   w
	abs brev bfind clz cnot cos cvta ex2 getctarank isspacep istypep ldmatrix ldu lg2 mov movmatrix  2  w
	neg not popc rcp rsqrt sin sqrt suld suq tanh testp elect                                        2  w
	add addc and bmsk copysign div mapa match mul mul24 or redux rem shl shr sub subc szext xor      3  w
	bfe dp2a dp4a fma fns mad mad24 madc prmt sad selp shf slct                                      4  w
	bfi                                                  5   w
	alloca                                               2-3 w
	atom                                                 3-5 w
	createpolicy                                         1-5 w
	cvt                                                  2-5 w
	ld                                                   2-4 w
	lop3                                                 5-6 w
	max min                                              3-4 w
	mma                                                  4-10 w
	set setp                                             3-4 w
	shfl                                                 4-5 w
	tex                                                  2-6 w
	tld4                                                 2-5 w
	txq                                                  2-3 w
	vote                                                 2-3 w
	vadd vsub vabsdiff vmin vmax vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2                 3-4 w
	vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4 vmad vshl vshr                                    3-5 w
`)

func parseOpcodes(table string) map[string]*opInfo {
	ops := map[string]*opInfo{}
	effects := map[string]effect{"r": reads, "w": writes, "u": updates}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		n := 0
		for n < len(fields) && (fields[n][0] < '0' || fields[n][0] > '9') {
			n++
		}
		info := &opInfo{effect: effects[fields[n+1]]}
		if c, _ := fmt.Sscanf(fields[n], "%d-%d", &info.min, &info.max); c == 1 {
			info.max = info.min
		}
		for _, pair := range fields[n+2:] {
			mod, e, _ := strings.Cut(pair, ":")
			info.byMod = append(info.byMod, modEffect{mod, effects[e]})
		}
		for _, name := range fields[:n] {
			ops[name] = info
		}
	}
	return ops
}

// effectOf says what the instruction does with its first operand.
func (in *Instr) effectOf() effect {
	for _, m := range in.info.byMod {
		if in.Has(m.mod) {
			return m.effect
		}
	}
	return in.info.effect
}

// Has reports whether the instruction has a modifier.
func (in *Instr) Has(mod string) bool {
	for _, m := range in.Mods {
		if m == mod {
			return true
		}
	}
	return false
}

// Mnemonic is the opcode with its modifiers: "ld.global.v4.f32".
func (in *Instr) Mnemonic() string {
	if len(in.Mods) == 0 {
		return in.Op
	}
	return in.Op + "." + strings.Join(in.Mods, ".")
}

// Modifiers by what they are for. A modifier is accepted on any opcode: which belong together is for ptxas to say, and
// for the emulator, which refuses what it does not implement.
var modifiers = set(`
	s8 s16 s32 s64 u8 u16 u32 u64 b1 b4 b8 b16 b32 b64 b128 f16 f16x2 f32 f32x2 f64 bf16 bf16x2 tf32 pred s4 u4 s2 u2
	s16x2 u16x2 s8x4 u8x4 s4x8 u4x8 e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1 e2m1x2 e2m1x4 e2m3 e3m2 e2m3x2 e3m2x2
	e2m3x4 e3m2x4 ue8m0 ue8m0x2 ue4m3 s2f6x2 b6x16_p32 b4x16_p64 b8x16 b6p2x16 b1024 texref samplerref surfref
	rn rz rm rp rs rna rni rzi rmi rpi approx full ftz noftz sat satfinite relu NaN xorsign abs oob
	lo hi wide cc pack scaled::n2::ue8m0
	eq ne lt le gt ge ls hs equ neu ltu leu gtu geu num nan and or xor popc
	finite infinite number notanumber normal subnormal
	global shared local param const tex sreg shared::cta shared::cluster param::entry param::func to unified
	ca cg cs cv cu wb wt lu nc volatile relaxed acquire release acq_rel sc weak mmio cta cluster gpu sys gl
	L1 L2 L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate
	L2::evict_normal L2::evict_unchanged L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B
	evict_normal evict_last level::eviction_priority
	add sub min max inc dec exch cas
	sync arrive red warp aligned cta_group::1 cta_group::2
	up down bfly idx all any uni ballot
	async bulk tensor commit_group wait_group wait_all mbarrier noinc read reduce prefetch tile im2col im2col_no_offs
	im2col::w im2col::w::128 tile::gather4 tile::scatter4 mbarrier::complete_tx::bytes bulk_group multicast::cluster
	multicast::cluster::all cp_mask ignore_oob 1d 2d 3d 4d 5d
	trans row col sp sp::ordered_metadata kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 kind::f16 kind::tf32
	kind::i8 block_scale block16 block32 scale_vec::1X scale_vec::2X scale_vec::4X
	fence mma_async load store a b c d mma
	proxy alias async::generic async::global tensormap::generic mbarrier_init sync_restrict::shared::cluster
	sync_restrict::shared::cta proxy::tensormap proxy::async proxy::alias proxy::async::generic
	init inval expect_tx complete_tx arrive_drop test_wait try_wait pending_count noComplete parity
	fractional range cvt launch_dependents wait
	replace global_address rank box_dim global_dim global_stride element_stride elemtype interleave_layout swizzle_mode
	swizzle_atomicity fill_mode cp_fenceproxy
	alloc dealloc relinquish_alloc_permit ld st wait::ld wait::st cp shift commit fence::before_thread_sync
	fence::after_thread_sync ws pack::16b unpack::16b warpx2::02_13 warpx2::01_23 warpx4 mbarrier::arrive::one ashift
	collector::a::fill collector::a::use collector::a::lastuse collector::a::discard
	collector::b0::fill collector::b0::use collector::b0::lastuse collector::b0::discard
	collector::b1::fill collector::b1::use collector::b1::lastuse collector::b1::discard
	collector::b2::fill collector::b2::use collector::b2::lastuse collector::b2::discard
	collector::b3::fill collector::b3::use collector::b3::lastuse collector::b3::discard
	try_cancel query_cancel is_canceled get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z
	ld_reduce acc::f32 acc::f16
	cube acube a1d a2d 2dms a2dms level grad base r g p zero clamp wrap trap
	width height depth channel_data_type channel_order normalized_coords force_unnormalized_coords filter_mode
	addr_mode_0 addr_mode_1 addr_mode_2 array_size num_mipmap_levels num_samples memory_layout
	l f4e b4e rc8 ecl ecr rc16 shiftamt po shr7 shr15 mask tensormap no_arrive
`)

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}

// knownModifier reports whether a modifier is in the table or is a size: v4, x2, m16n8k16, 16x256b, 16x32bx2.
func knownModifier(mod string) bool {
	if modifiers[mod] {
		return true
	}
	letters := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, mod)
	if len(letters) == len(mod) {
		return false
	}
	switch letters {
	case "v", "x", "mn", "mnk", "xb", "xbx":
		return true
	}
	return false
}

// specials are the registers that the hardware sets (PTX ISA, chapter 10). Some have components: %tid.x.
var specials = func() map[string]bool {
	m := set(`%tid %ntid %laneid %warpid %nwarpid %ctaid %nctaid %smid %nsmid %gridid %is_explicit_cluster %clusterid
		%nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank %cluster_nctarank %lanemask_eq %lanemask_le
		%lanemask_lt %lanemask_ge %lanemask_gt %clock %clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi
		%reserved_smem_offset_begin %reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0
		%reserved_smem_offset_1 %total_smem_size %aggr_smem_size %dynamic_smem_size %current_graph_exec WARP_SZ`)
	for i := range 32 {
		m[fmt.Sprintf("%%envreg%d", i)] = true
	}
	for i := range 8 {
		m[fmt.Sprintf("%%pm%d", i)] = true
		m[fmt.Sprintf("%%pm%d_64", i)] = true
	}
	return m
}()

// types are what registers and memory may be declared as.
var types = set(`s8 s16 s32 s64 u8 u16 u32 u64 b8 b16 b32 b64 b128 f16 f16x2 f32 f64 bf16 bf16x2 tf32 e4m3 e5m2 pred
	texref samplerref surfref`)
