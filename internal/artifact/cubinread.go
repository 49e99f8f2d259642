package artifact

// This file implements the record of a kernel from a cubin.

import (
	"maps"
	"slices"

	"gpuemu/internal/cubin"
)

// cubinMetrics makes the records of all kernels of an image of machine code.
func cubinMetrics(name, sum string, image *cubin.Image) []Metrics {
	var records []Metrics
	for i := range image.Kernels {
		records = append(records, cubinKernel(name, sum, image, &image.Kernels[i]))
	}
	return records
}

func cubinKernel(name, sum string, image *cubin.Image, k *cubin.Kernel) Metrics {
	r := Metrics{Kernel: k.Name, Arch: image.Arch,
		Sources:   []Source{{Kind: Cubin, File: name, Digest: sum, Version: image.Version}},
		Registers: known(k.Registers), SpillStores: known(k.SpillStores), SpillLoads: known(k.SpillLoads),
		Stack: known(k.MinStack), SharedStatic: known(k.SharedStatic), Barriers: &Figure{k.Barriers, FromCubin},
		MaxThreads: threads(k.MaxThreads), ReqThreads: threads(k.ReqThreads),
	}
	if k.MinStack != nil {
		r.Local = &Figure{k.Local + *k.MinStack, FromCubin} // the stack lives in local memory
	}
	banks := maps.Clone(image.Constant)
	if banks == nil {
		banks = map[int]int{}
	}
	maps.Copy(banks, k.Constant)
	for _, bank := range slices.Sorted(maps.Keys(banks)) {
		r.Constant = append(r.Constant, Bank{&bank, Figure{banks[bank], FromCubin}})
	}
	for _, p := range k.Params {
		r.Params = append(r.Params, Param{Offset: &p.Offset, Size: p.Size})
	}
	if image.Relocatable {
		r.Notes = append(r.Notes, "the code is not linked yet (nvcc -rdc): its stack and shared memory are not known")
	}
	return r
}

// known makes a figure of what the assembler recorded; nil stays nil.
func known(n *int) *Figure {
	if n == nil {
		return nil
	}
	return &Figure{*n, FromCubin}
}

// threads makes an extent of what the assembler recorded; zero is "not declared".
func threads(xyz [3]int) *Extent {
	if xyz == [3]int{} {
		return nil
	}
	return &Extent{max(xyz[0], 1), max(xyz[1], 1), max(xyz[2], 1), FromCubin}
}
