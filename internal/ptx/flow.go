package ptx

// This file implements what is known of the registers that instructions read and write.

// Defs visits the registers that the instruction writes. What a guard or a component (%v.x) leaves of the old value is
// for the caller to see.
func (in *Instr) Defs(visit func(*Operand)) {
	if out, _ := in.output(); out != nil {
		out.registers(visit)
	}
}

// Uses visits the registers that the instruction reads: its guard, bases of addresses and what it updates among them.
// One that is read twice is visited twice.
func (in *Instr) Uses(visit func(*Operand)) {
	if in.Guard != nil {
		in.Guard.registers(visit)
	}
	out, updated := in.output()
	for i := range in.Args {
		if a := &in.Args[i]; a != out || updated {
			a.registers(visit)
		}
	}
}

// output is the operand that the instruction writes, nil if it writes none, and whether it reads it as well. An address
// is never one: mbarrier.arrive may come without the register that it would write.
func (in *Instr) output() (out *Operand, updated bool) {
	if len(in.Args) == 0 || in.Args[0].Kind == AddressArg {
		return nil, false
	}
	e := in.effectOf()
	if in.Op == "call" && in.Args[0].Kind == GroupArg { // what comes back; arguments stand behind the name
		e = writes
	}
	if e == reads {
		return nil, false
	}
	return &in.Args[0], e == updates
}

// registers visits the registers of an operand, which is nested at most maxNesting deep.
func (o *Operand) registers(visit func(*Operand)) {
	if o.Kind == RegisterArg {
		visit(o)
		return
	}
	for i := range o.List {
		o.List[i].registers(visit)
	}
}

// replaces reports whether a write of the operand leaves nothing of the old value. A part of a scalar, as video
// instructions write it, is merged with another operand, not with what was there (PTX ISA, Scalar Video Instructions).
func (in *Instr) replaces(o *Operand) bool {
	return in.Guard == nil && (o.Field == "" || o.Reg.Vec == "")
}

// Size says how many 32-bit registers or how many predicates a register takes. Of the two only one is not 0.
func (r *Register) Size() (registers, predicates int) {
	n := 1
	if r.Vec != "" {
		n = int(r.Vec[1] - '0') // v2, v4 or v8
	}
	switch r.Type {
	case "pred":
		return 0, n
	case "b64", "s64", "u64", "f64", "texref", "samplerref", "surfref": // references are handles of 64 bits
		return 2 * n, 0
	case "b128":
		return 4 * n, 0
	}
	return n, 0
}
