package wire

import "encoding/json"

// This file implements the types of the HTTP API that concern the execution of compiled kernels on the CPU.

// EmulateHeader is one launch of a compiled kernel. The bytes of its tensors follow it, or lie in the shared file.
type EmulateHeader struct {
	PTX  *string `json:"ptx,omitempty"`  // text of the module, or
	File string  `json:"file,omitempty"` // absolute path of a PTX file
	Name string  `json:"name,omitempty"` // of the text, for messages; "": kernel.ptx

	Entry         string       `json:"entry,omitempty"` // "": the only kernel of the module
	Grid          []int        `json:"grid"`            // x, y, z; those behind the last are 1
	Block         []int        `json:"block"`
	DynamicShared int          `json:"dynamic_shared,omitempty"` // bytes
	Args          []EmulateArg `json:"args"`                     // in the order of the kernel's parameters

	Checks    string `json:"checks,omitempty"`    // all (default), none, or some of bounds,uninit,race,barrier,async
	Schedules int    `json:"schedules,omitempty"` // orders of blocks and warps that are compared; 0: one
	Budget    uint64 `json:"budget,omitempty"`    // instructions of warps; 0: the usual limit
	Memory    string `json:"memory,omitempty"`    // that the launch may use: 6GiB, 512MiB or bytes; "": the usual limit
	Counters  bool   `json:"counters,omitempty"`
	Arch      string `json:"arch,omitempty"`     // whose tensor cores are followed; "": the module's .target
	SFU       string `json:"sfu,omitempty"`      // worst+ or worst-: ends of the bounds of approximate instructions
	Contract  bool   `json:"contract,omitempty"` // products are fused with additions where PTX leaves it open

	Shared string  `json:"shared,omitempty"` // absolute path of the file that the image lies in
	Bytes  []int64 `json:"bytes,omitempty"`  // begin and end of the image in that file
}

// EmulateArg is an argument: a scalar, or a tensor, whose parameter is an address.
type EmulateArg struct {
	Kind  string  `json:"kind"` // tensor or scalar
	Name  string  `json:"name,omitempty"`
	DType string  `json:"dtype,omitempty"` // of a scalar "": that of the parameter
	Value string  `json:"value,omitempty"` // of a scalar: 8, -1.5, NaN, 0xff, true
	Role  string  `json:"role,omitempty"`  // of a tensor: in, out or inout
	Shape []int64 `json:"shape,omitempty"` // of a tensor without storage: nothing is in its memory

	// Storage is the tensor of the image that has the bytes; tensors with the same storage share memory. Offset is how
	// many bytes lie before the address that is passed, Address that of the storage where it comes from, modulo 256.
	Storage string `json:"storage,omitempty"`
	Offset  int64  `json:"offset,omitempty"`
	Address int64  `json:"address,omitempty"`

	// Valid are the parts of the storage that the kernel may access, each the first element and how many there are, in
	// elements of the dtype; none: all of it. The first tensor of a storage has them.
	Valid [][]int64 `json:"valid,omitempty"`
}

// EmulateReply is what came of a launch. The storages that the kernel was allowed to write follow it as an image, with
// the tensors without storage by their names, or lie in the shared file.
type EmulateReply struct {
	Emulation json.RawMessage `json:"emulation"`       // emulation.Document
	Bytes     []int64         `json:"bytes,omitempty"` // begin and end of the image in the shared file
}

// CompileRequest is a CUDA C++ source to compile for the emulator.
type CompileRequest struct {
	Source   *string     `json:"source,omitempty"`   // text, or
	File     string      `json:"file,omitempty"`     // absolute path of a .cu file
	Arch     string      `json:"arch,omitempty"`     // "": sm_80
	Flags    []string    `json:"flags,omitempty"`    // further arguments of the compiler
	Compiler string      `json:"compiler,omitempty"` // nvcc or clang; "": nvcc where it is installed, else clang
	Env      Environment `json:"env,omitzero"`       // of the caller: that of compilers
}

// CompileReply is the module.
type CompileReply struct {
	PTX      string `json:"ptx"`
	Log      string `json:"log"`      // what the compiler printed
	Compiler string `json:"compiler"` // its name and version
	Command  string `json:"command"`
}
