package ptxvm

import (
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// arithmeticOps are the opcodes whose every form is executed, but for refusedForms.
var arithmeticOps = strings.Fields(`add sub mul mad fma div rem rcp sqrt rsqrt ex2 lg2 sin cos tanh min max abs neg setp
	set selp slct cvt mov and or xor not cnot shl shr popc clz brev bfe bfi bfind prmt lop3 shf dp4a dp2a sad mul24 mad24
	addc subc madc copysign testp fns szext bmsk`)

// refusedForms are what is not executed: registers of 128 bits.
var refusedForms = []string{"mov.b128"}

// TestForms lowers every form of arithmetic that ptxas accepts.
func TestForms(t *testing.T) {
	f, err := ptx.ReadFile("../ptx/testdata/forms_sm_90a.ptx")
	if err != nil {
		t.Fatal(err)
	}
	fn := f.Functions[0]
	l := &lowering{file: f, prog: &Program{File: f, Kernel: fn, specials: map[string]ref{}},
		slots: map[*ptx.Register]ref{}, consts: map[constantKey]ref{}, symbols: map[symbolKey]symbol{}}
	n, refused := 0, 0
	for _, in := range fn.Code {
		if !slices.Contains(arithmeticOps, in.Op) || in.Args[1].Kind == ptx.SpecialArg || in.Args[1].Kind == ptx.SymbolArg {
			continue // other tests look at special registers and addresses
		}
		n++
		l.err = nil
		l.instruction(fn, in)
		switch known := slices.Contains(refusedForms, in.Mnemonic()); {
		case l.err != nil && !known:
			t.Error(l.err)
		case l.err == nil && known:
			t.Errorf("%s is executed", in.Mnemonic())
		case known:
			refused++
		}
	}
	if n < 250 || refused != len(refusedForms) {
		t.Errorf("%d forms, %d of them refused", n, refused)
	}
}
