package ptxdiff

import (
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the tables of what instructions depend on besides their operands, and of spellings that mean the
// same (PTX ISA 9.0, chapter 9).

// class is where an instruction may stand without changing its result.
type class uint8

const (
	// acts: it writes memory, waits or is not known to be harmless. All of these keep their order.
	acts class = iota + 1
	// looks: it reads memory, so it stays between the same two that act, and it may fault, so it stays in its block.
	looks
	// gathers: it exchanges values between the threads that execute it, so it stays in its block.
	gathers
	// pure: its result follows from its operands alone.
	pure
)

var pureOps = words(`abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos createpolicy cvt cvta div
	dp2a dp4a ex2 fma fns getctarank isspacep istypep lg2 lop3 mad mad24 madc mapa max min mov mul mul24 neg not or
	popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub subc suq szext tanh testp txq xor vadd
	vsub vabsdiff vmin vmax vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4
	vmax4 vset4 vmad vshl vshr`)

var lookOps = words("ld ldu ldmatrix tex tld4 suld")

var gatherOps = words("shfl vote match redux mma movmatrix elect")

// changing are special registers whose value depends on when they are read.
var changing = words(`%clock %clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi %smid %warpid`)

// commutative are opcodes whose first two sources may change places.
var commutative = words("add addc mul mul24 mad mad24 madc fma min max and or xor sad")

func words(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}

// classOf says where an instruction may stand. own reports whether a variable is a parameter of the function.
func classOf(in *ptx.Instr, own func(*ptx.Variable) bool) class {
	switch {
	case readsChanging(in):
		return acts
	case pureOps[in.Op]:
		return pure
	case in.Op == "ld" && in.Has("param") && own(baseVariable(in)):
		return pure
	case lookOps[in.Op], in.Op == "wmma" && in.Has("load"):
		for _, m := range []string{"volatile", "relaxed", "acquire", "mmio"} {
			if in.Has(m) {
				return acts
			}
		}
		return looks
	case gatherOps[in.Op] && in.Has("sync"), in.Op == "wmma" && in.Has("mma"):
		return gathers
	}
	return acts
}

func readsChanging(in *ptx.Instr) bool { return anyChanging(in.Args) }

func anyChanging(list []ptx.Operand) bool {
	for i := range list {
		o := &list[i]
		if o.Kind == ptx.SpecialArg && (changing[o.Text] || strings.HasPrefix(o.Text, "%pm")) || anyChanging(o.List) {
			return true
		}
	}
	return false
}

// baseVariable is the variable whose address a load names, nil if a register does.
func baseVariable(in *ptx.Instr) *ptx.Variable {
	if in.Op != "ld" {
		return nil
	}
	if a := &in.Args[1]; a.Kind == ptx.AddressArg && len(a.List) == 1 {
		return a.List[0].Var
	}
	return nil
}

// widths are the bits of types.
var widths = map[string]int{
	"pred": 1, "b8": 8, "s8": 8, "u8": 8, "b16": 16, "s16": 16, "u16": 16, "f16": 16, "bf16": 16, "b32": 32, "s32": 32,
	"u32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "s16x2": 32, "u16x2": 32, "tf32": 32, "b64": 64, "s64": 64, "u64": 64,
	"f64": 64, "f32x2": 64, "b128": 128,
}

// typeMod is the place of the last modifier that is a type, -1 if there is none.
func typeMod(in *ptx.Instr) int {
	for i := len(in.Mods) - 1; i >= 0; i-- {
		if widths[in.Mods[i]] > 0 {
			return i
		}
	}
	return -1
}

// operandType is the type of an instruction's sources, "" if it has none.
func operandType(in *ptx.Instr) string {
	if i := typeMod(in); i >= 0 {
		return in.Mods[i]
	}
	return ""
}

// typedOps are opcodes whose sources have the type of the instruction, or 32 bits where that is no less. Of others it
// may be smaller than an operand: a stride of wmma.load, the size of a bulk copy.
var typedOps = words("st atom red shfl vote match redux")

// width is how many bits of a literal an instruction sees; 64 where that is not known. Too large is safe: two different
// constants must stay different.
func width(in *ptx.Instr, o *ptx.Operand) int {
	at := whole(in.Args, o)
	if at < 0 || !pureOps[in.Op] && !typedOps[in.Op] || in.Args[at].Kind == ptx.AddressArg {
		return 64
	}
	w := 0
	for _, m := range in.Mods {
		w = max(w, widths[m])
	}
	switch {
	case (in.Op == "shl" || in.Op == "shr") && at == 2:
		return 32 // the count, whatever is shifted
	case in.Has("L2::cache_hint") && at == len(in.Args)-1:
		return 64 // the policy
	case in.Has("wide") && at == 3:
		w *= 2 // what is added to a product has its size
	}
	if w < 8 || w > 64 { // of predicates, too: vote.sync.any.pred has a mask of threads
		return 64
	}
	return w
}

// whole is which operand is a given one or has it as a part, -1 if none is.
func whole(list []ptx.Operand, part *ptx.Operand) int {
	for i := range list {
		if &list[i] == part || whole(list[i].List, part) >= 0 {
			return i
		}
	}
	return -1
}

// spelling is the opcode with its modifiers, the same for spellings that mean the same: what only moves bits or adds
// them modulo a power of two does not care for the type, only for its size.
func spelling(in *ptx.Instr) string {
	op, mods := in.Op, in.Mods
	if op == "call" {
		mods = without(mods, "uni") // as of branches: a promise that changes nothing where it is kept
	}
	if op == "bar" && !in.Has("warp") { // bar is barrier.aligned under its old name
		op = "barrier"
		mods = append(without(mods, "cta"), "aligned")
	} else if i := typeMod(in); i >= 0 && typeless(in, i) {
		mods = append([]string(nil), mods...)
		mods[i] = "b" + strings.TrimLeft(mods[i], "busf")
	}
	if len(mods) == 0 {
		return op
	}
	return op + "." + strings.Join(mods, ".")
}

func without(list []string, drop string) []string {
	var kept []string
	for _, s := range list {
		if s != drop {
			kept = append(kept, s)
		}
	}
	return kept
}

// typeless reports whether only the size of the type at mods[i] matters.
func typeless(in *ptx.Instr, i int) bool {
	t := in.Mods[i]
	if len(t) < 2 || strings.Trim(t[1:], "0123456789") != "" {
		return false // bf16, f16x2 and the like stand for more than a size
	}
	whole := t[0] != 'f'
	switch in.Op {
	case "st", "mov", "selp", "shfl":
		return true
	case "ld", "ldu":
		return t[0] != 's' || loadedWidth(in) == widths[t]
	case "add", "sub", "addc", "subc":
		return whole
	case "mul", "mad", "madc":
		return whole && in.Has("lo")
	case "setp":
		return whole && (in.Has("eq") || in.Has("ne"))
	case "atom", "red":
		return in.Has("exch") || in.Has("cas") || in.Has("and") || in.Has("or") || in.Has("xor") || whole && in.Has("add")
	}
	return false
}

// loadedWidth is the size of the registers that a load writes; 0 if there are none.
func loadedWidth(in *ptx.Instr) int {
	w := 0
	in.Defs(func(o *ptx.Operand) {
		if o.Reg != nil {
			w = max(w, widths[o.Reg.Type])
		}
	})
	return w
}

// comparison is a comparison in the words of fewer ones.
type comparison struct {
	cmp    string
	swap   bool // its operands change places
	negate bool // and its result is negated
}

// wholeComparisons brings comparisons of whole numbers to lt and eq. lo, ls, hi and hs are those of unsigned ones.
var wholeComparisons = map[string]comparison{
	"eq": {"eq", false, false}, "ne": {"eq", false, true},
	"lt": {"lt", false, false}, "gt": {"lt", true, false}, "ge": {"lt", false, true}, "le": {"lt", true, true},
	"lo": {"lt", false, false}, "hi": {"lt", true, false}, "hs": {"lt", false, true}, "ls": {"lt", true, true},
}

// floatComparisons brings those of floating-point numbers to lt, le, eq, ne and num, which are false for NaN; the
// opposite of one that is false for NaN is one that is true for it.
var floatComparisons = map[string]comparison{
	"eq": {"eq", false, false}, "neu": {"eq", false, true}, "ne": {"ne", false, false}, "equ": {"ne", false, true},
	"lt": {"lt", false, false}, "gt": {"lt", true, false}, "geu": {"lt", false, true}, "leu": {"lt", true, true},
	"le": {"le", false, false}, "ge": {"le", true, false}, "gtu": {"le", false, true}, "ltu": {"le", true, true},
	"num": {"num", false, false}, "nan": {"num", false, true},
}

// plainComparison reports how a setp without a second predicate is said in fewer words.
func plainComparison(in *ptx.Instr) (comparison, bool) {
	partly := false
	in.Defs(func(o *ptx.Operand) { partly = partly || o.Field != "" })
	if partly || in.Op != "setp" || len(in.Args) != 3 || len(in.Mods) == 0 {
		return comparison{}, false
	}
	table := floatComparisons
	switch t := operandType(in); {
	case t == "":
		return comparison{}, false
	case strings.ContainsAny(t[:1], "sub") && t != "bf16" && t != "bf16x2":
		table = wholeComparisons
	case strings.HasSuffix(t, "x2"): // two comparisons, two results
		return comparison{}, false
	}
	c, ok := table[in.Mods[0]]
	return c, ok
}
