package tensor

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	ShapeRank         diag.Code = "tensor-shape-rank"         // a shape has more than MaxRank dimensions
	ShapeDim          diag.Code = "tensor-shape-dim"          // a dimension is negative
	ShapeLimit        diag.Code = "tensor-shape-limit"        // the dimensions multiply to more than MaxElems elements
	ByteLimit         diag.Code = "tensor-byte-limit"         // a tensor or its storage needs more than MaxBytes bytes
	BadDType          diag.Code = "tensor-dtype"              // the dtype of a tensor is not set or not known
	DataLength        diag.Code = "tensor-data-length"        // the bytes given do not match shape and dtype
	StorageBounds     diag.Code = "tensor-storage-bounds"     // an element lies outside the storage
	BadView           diag.Code = "tensor-view"               // arguments of a view do not fit the tensor
	ReshapeCopies     diag.Code = "tensor-reshape-copies"     // a reshape of this layout is not possible without a copy
	BadLayout         diag.Code = "tensor-layout"             // a layout name is unknown
	LayoutUnsupported diag.Code = "tensor-layout-unsupported" // a layout does not exist for this shape
	LayoutParam       diag.Code = "tensor-layout-param"       // a layout parameter is out of range

	SafetensorsHeader  diag.Code = "tensor-safetensors-header"  // the header of a safetensors file is malformed
	SafetensorsName    diag.Code = "tensor-safetensors-name"    // a tensor name is given twice, reserved or not UTF-8
	SafetensorsDType   diag.Code = "tensor-safetensors-dtype"   // a safetensors dtype is unknown or not supported
	SafetensorsOffsets diag.Code = "tensor-safetensors-offsets" // data ranges overlap, leave holes or pass the end
	NPYHeader          diag.Code = "tensor-npy-header"          // the header of an .npy file is malformed
	NPYDType           diag.Code = "tensor-npy-dtype"           // a dtype does not exist in .npy files or here
	FileRead           diag.Code = "tensor-file-read"           // a tensor file cannot be opened or read
	FileWrite          diag.Code = "tensor-file-write"          // a tensor file cannot be written
)
