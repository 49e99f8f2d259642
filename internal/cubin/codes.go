package cubin

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	NotBinary    diag.Code = "cubin-not-binary"     // a file is no cubin, no fatbin, and no ELF file that may hold one
	NoDeviceCode diag.Code = "cubin-no-device-code" // an object, library or executable holds no device code
	BadELF       diag.Code = "cubin-elf"            // the ELF structure of a cubin or a host file is malformed
	BadRecord    diag.Code = "cubin-record"         // a record of .nv.info or .nv.compat is malformed
	BadFatbin    diag.Code = "cubin-fatbin"         // the container of several images is malformed
	BadPacked    diag.Code = "cubin-packed"         // compressed device code cannot be unpacked
	TooLarge     diag.Code = "cubin-limit"          // device code is larger than the reader accepts
)
