// This file implements the stable error codes of the package.

package receipt

import "gpuemu/internal/diag"

const (
	// Syntax means that a file is not one JSON value: a receipt, a result file, the payload inside an envelope.
	Syntax diag.Code = "receipt-syntax"
	// Encoding means that text is not UTF-8, begins with a byte order mark, or holds half of a surrogate pair.
	Encoding diag.Code = "receipt-encoding"
	// DuplicateKey means that a JSON object has the same key twice: two readers could see two different receipts.
	DuplicateKey diag.Code = "receipt-duplicate-key"
	// TooLarge means that a file is larger, has more values, or a number more digits, than is read.
	TooLarge diag.Code = "receipt-too-large"
	// TooDeep means that a JSON value is nested deeper than is read.
	TooDeep diag.Code = "receipt-too-deep"
	// NotFinite means that NaN or an infinity stands where a number must be finite.
	NotFinite diag.Code = "receipt-not-finite"
	// UnknownField means that an object has a field that its format does not know.
	UnknownField diag.Code = "receipt-unknown-field"
	// MissingField means that an object lacks a field that its format demands.
	MissingField diag.Code = "receipt-missing-field"
	// WrongType means that a field has a value of another type than its format demands.
	WrongType diag.Code = "receipt-wrong-type"
	// BadValue means that a value has the right type and is not allowed: an unknown outcome, an empty id, a date in
	// another spelling, a digest that is no digest.
	BadValue diag.Code = "receipt-bad-value"
	// UnknownFormat means that a file is none of the formats that are read, or of a version that is not known.
	UnknownFormat diag.Code = "receipt-unknown-format"
	// Unfit means that a statement cannot be written in the format asked for, or with the key at hand.
	Unfit diag.Code = "receipt-unfit"
	// MergeConflict means that receipts to be merged do not speak of the same code, or contradict each other.
	MergeConflict diag.Code = "receipt-merge-conflict"
	// ImportSyntax means that a report of another test runner could not be read.
	ImportSyntax diag.Code = "receipt-import-syntax"
	// ImportEmpty means that a report of another test runner holds no test at all.
	ImportEmpty diag.Code = "receipt-import-empty"
)
