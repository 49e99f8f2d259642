package sass

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	NotListing diag.Code = "sass-not-a-listing" // a text has no function as cuobjdump -sass or nvdisasm prints them
	Syntax     diag.Code = "sass-syntax"        // a line inside a function is not one of a listing
	TooLarge   diag.Code = "sass-limit"         // a listing or one of its lines is longer than the reader accepts
)
