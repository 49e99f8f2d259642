package ptxvm

import (
	"fmt"
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the resources that a block has on a GPU: a launch that asks for more fails there before anything
// is executed, so here it is a finding, and nothing is executed either.

// Bytes of memory that no architecture exceeds (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability").
const (
	maxStaticShared = 48 << 10  // in variables of the module; ptxas refuses more
	maxLocal        = 512 << 10 // of a thread
	maxParams       = 32764     // of a kernel, from sm_70 on
)

// sharedLimits are the bytes of shared memory that a block may have, static and dynamic together, once the host has set
// cudaFuncAttributeMaxDynamicSharedMemorySize, by compute capability.
var sharedLimits = map[int]int{70: 96 << 10, 72: 96 << 10, 75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 87: 163 << 10,
	88: 99 << 10, 89: 99 << 10, 120: 99 << 10, 121: 99 << 10}

// sharedLimit is the limit of a target such as sm_90a: 48 KiB before Volta, 227 KiB for data-center GPUs from Hopper on
// and for what is not known.
func sharedLimit(target string) int {
	n, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(target, "sm_"), "af"))
	if limit, ok := sharedLimits[n]; ok {
		return limit
	}
	if err == nil && n < 70 {
		return maxStaticShared
	}
	return 227 << 10
}

// beyond is the finding about a launch that asks for more than a block has; nil where it does not.
func (p *Program) beyond(l *Launch) *Finding {
	target := "sm_90"
	if len(p.File.Targets) > 0 {
		target = p.File.Targets[0]
	}
	all := p.sharedStatic
	if l.DynamicShared > 0 {
		all = alignUp(all, max(p.dynamicAlign, 16)) + l.DynamicShared
	}
	var message string
	switch {
	case p.sharedStatic > maxStaticShared:
		message = fmt.Sprintf("%s has %d bytes of static shared memory; the limit is %d, and ptxas refuses more: "+
			"use dynamic shared memory", p.Kernel.Name, p.sharedStatic, maxStaticShared)
	case all > sharedLimit(target):
		message = fmt.Sprintf("a block needs %d bytes of shared memory (%d static, %d dynamic); the limit on %s is %d: "+
			"the launch fails", all, p.sharedStatic, l.DynamicShared, target, sharedLimit(target))
	case p.localBytes > maxLocal:
		message = fmt.Sprintf("a thread needs %d bytes of local memory; the limit is %d: the launch fails", p.localBytes,
			maxLocal)
	default:
		return nil
	}
	return &Finding{Class: ResourceLimit, Message: message, Count: 1, PTX: p.File.Position(p.Kernel.Pos)}
}

// usedVariables are the variables that a kernel and the functions it may call name, and those that their initial values
// point to. Others are those of other kernels: they take no shared memory on a GPU, and nobody here can tell whether
// they have global memory.
func (l *lowering) usedVariables() map[symbolKey]bool {
	used := map[symbolKey]bool{}
	var visit func(list []ptx.Operand)
	var initial func(in *ptx.Init)
	use := func(o *ptx.Operand) {
		if key := (symbolKey{o.Var, o.Text}); o.Var != nil && !used[key] {
			used[key] = true
			for i := range o.Var.Names {
				if n := &o.Var.Names[i]; n.Name == o.Text && n.Init != nil {
					initial(n.Init)
				}
			}
		}
	}
	initial = func(in *ptx.Init) {
		use(&in.Value)
		if in.IsList() {
			for e := range in.Elements() {
				initial(e)
			}
		}
	}
	visit = func(list []ptx.Operand) {
		for i := range list {
			use(&list[i])
			visit(list[i].List)
		}
	}
	seen := map[*ptx.Function]bool{l.prog.Kernel: true}
	for todo := []*ptx.Function{l.prog.Kernel}; len(todo) > 0; {
		fn := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, in := range fn.Code {
			visit(in.Args)
		}
		for _, callee := range l.callees(fn) {
			if !seen[callee] {
				seen[callee] = true
				todo = append(todo, callee)
			}
		}
	}
	return used
}
