package artifact

// This file implements the record of a kernel from a listing of machine code.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"gpuemu/internal/pattern"
	"gpuemu/internal/sass"
)

// sassMetrics makes the records of all functions of a listing. A listing does not tell kernels from other functions.
func sassMetrics(name, sum string, functions []sass.Function) []Metrics {
	var records []Metrics
	for i := range functions {
		records = append(records, sassFunction(name, sum, &functions[i]))
	}
	return records
}

func sassFunction(name, sum string, fn *sass.Function) Metrics {
	c := newCounter(pattern.SASS)
	hash := sha256.New()
	first := Place{}
	for _, in := range fn.Code() {
		place := Place{Line: in.Line, SourceFile: in.Source.File, SourceLine: in.Source.Line}
		if first.SourceLine == 0 {
			first = place
		}
		mnemonic := in.Opcode
		if in.Modifiers != "" {
			mnemonic += "." + in.Modifiers
		}
		if in.Never() {
			c.filler(in.Opcode)
		} else {
			class, access := classifySASS(&in)
			c.add(in.Opcode, mnemonic, class, in.Predicate != "", access, func() Place { return place })
		}
		fmt.Fprintf(hash, "%s %s %s\n", in.Predicate, mnemonic, in.Operands)
	}
	first.Line = fn.Line
	r := Metrics{Kernel: fn.Name, Arch: fn.Arch, SASSCode: c.code(),
		Sources: []Source{{Kind: SASS, File: name, Place: first, Digest: sum, Code: hex.EncodeToString(hash.Sum(nil))}}}
	r.spillsOf(nil, nil)
	return r
}

// spillsOf sets the spills from the accesses to local memory where their cause is known. The frame and the declared
// bytes are nil where they are not known.
func (m *Metrics) spillsOf(frame, declared *int) {
	use := sass.LocalUse{Calls: m.SASSCode.Classes[Call] > 0}
	for _, a := range m.SASSCode.Memory {
		switch {
		case a.Space != "local":
		case a.Kind == "load":
			use.Loads, use.LoadBytes = use.Loads+a.Count, use.LoadBytes+a.Count*a.Bits/8
		default:
			use.Stores, use.StoreBytes = use.Stores+a.Count, use.StoreBytes+a.Count*a.Bits/8
		}
	}
	switch use.Cause(frame, declared) {
	case sass.CauseNone, sass.CauseArrays:
		m.SpillStores, m.SpillLoads = &Figure{0, FromSASS}, &Figure{0, FromSASS}
	case sass.CauseSpills:
		m.SpillStores, m.SpillLoads = &Figure{use.StoreBytes, FromSASS}, &Figure{use.LoadBytes, FromSASS}
	}
}

// sassClasses are the opcodes by class. What accesses memory or multiplies matrices is known to package sass; an opcode
// that stands nowhere is Other.
var sassClasses = classTable(map[Class]string{
	FP32: `FADD FADD2 FADD32I FCHK FCMP FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSETP FSWZADD MUFU RRO
		UFADD UFFMA UFMNMX UFMUL UFSEL UFSET UFSETP`,
	FP64: "DADD DFMA DMNMX DMUL DSET DSETP",
	Half: "FHADD FHFMA HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2",
	Int: `BFE BFI BMSK BREV FLO IABS IADD IADD2 IADD3 IADD32I IADD64 ICMP IDP IDP4A IMAD IMAD32I IMADSP IMNMX IMUL IMUL32I
		ISAD ISCADD ISCADD32I ISET ISETP LEA LOP LOP3 LOP32I POPC SGXT SHF SHL SHR VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX
		VIMNMX VIMNMX3 XMAD PLOP3 PSETP PSET CSET CSETP UBMSK UBREV UFLO UIABS UIADD3 UIADD364 UIMAD UIMNMX UISETP ULEA ULOP
		ULOP3 ULOP32I UPLOP3 UPOPC UPSETP USGXT USHF USHL USHR UVIADD UVIMNMX`,
	Convert: "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP UF2F UF2FP UF2I UF2IP UFRND UI2F UI2FP UI2I",
	Move: `MOV MOV32I PRMT SEL S2R S2UR CS2R R2UR B2R R2B P2R R2P BMOV UMOV UPRMT USEL UP2UR UR2UP LEPC ULEPC QSPC
		GETLMEMBASE SETLMEMBASE`,
	Warp:   "SHFL VOTE VOTEU UVOTEU MATCH REDUX CREDUX ELECT",
	Memory: "CCTL CCTLL CCTLT UBLKPF UTMAPF UTMACCTL UTMACMDFLUSH UMEMSETS TXQ TMML SUQUERY",
	Tensor: "LDSM STSM MOVM LDTM STTM UTCCP UTCSHIFT UTCATOMSWS UTCLDSWS UTCSTSWS",
	Barrier: `BAR MEMBAR FENCE DEPBAR LDGDEPBAR ERRBAR CGAERRBAR SYNCS WARPSYNC WARPGROUP WARPGROUPSET UCGABAR
		UCGABAR_ARV UCGABAR_WAIT ARRIVES ACQBULK ACQSHMINIT UTCBAR COLLECTIVE ENDCOLLECTIVE`,
	Branch: `BRA BRX BRXU BREAK BSSY BSYNC BRK CONT EXIT JMP JMX JMXU KILL LONGJMP PBK PCNT PEXIT PLONGJMP PRET PREEXIT RET
		RPCMOV RTT SSY SYNC YIELD`,
	Call: "CALL CAL JCAL",
})

// classifySASS says what an instruction is for, and which memory it accesses; nil where it accesses none.
func classifySASS(in *sass.Instr) (Class, *Access) {
	access, accesses := in.Memory()
	class, known := sassClasses[in.Opcode]
	switch {
	case in.Tensor():
		class = Tensor
	case !known && accesses:
		class = Memory
		if access.Kind == sass.Atomic || access.Kind == sass.Reduction {
			class = Atomic
		}
	case !known:
		class = Other
	}
	if !accesses {
		return class, nil
	}
	a := &Access{Kind: "atomic", Space: access.Space.String(), Bits: access.Bytes * 8}
	if access.Space == sass.Constant {
		a.Space = "const" // as PTX calls it
	}
	switch access.Kind {
	case sass.Load:
		a.Kind = "load"
	case sass.Store:
		a.Kind = "store"
	case sass.CopyIn:
		a.Kind, a.Space = "copy", "shared.global"
	case sass.CopyOut:
		a.Kind, a.Space = "copy", "global.shared"
	}
	return class, a
}

// isListing reports whether a text looks like the output of cuobjdump -sass or nvdisasm: code with addresses under the
// name of a function.
func isListing(text string) bool {
	named := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Function :"), strings.HasPrefix(line, ".section") && strings.Contains(line, ".text."):
			named = true
		case named && strings.HasPrefix(line, "/*0"):
			return true
		}
	}
	return false
}
