// This file implements the stable error codes of the package.

package gen

import "gpuemu/internal/diag"

const (
	// UnknownStrategy means that no shape strategy has the given name.
	UnknownStrategy diag.Code = "gen-unknown-strategy"
	// UnknownDistribution means that no value distribution has the given name.
	UnknownDistribution diag.Code = "gen-unknown-distribution"
	// BadStrategy means that a field of a strategy is out of range or names something the schema does not have.
	BadStrategy diag.Code = "gen-bad-strategy"
	// NoDType means that the operator takes none of the dtypes asked for.
	NoDType diag.Code = "gen-no-dtype"
	// NoEmptyDim means that size 0 is asked for, but the operator has no dimension that may be empty.
	NoEmptyDim diag.Code = "gen-no-empty-dim"
	// NoShape means that no combination of sizes fulfilling the schema's relations was found.
	NoShape diag.Code = "gen-no-shape"
	// CaseMismatch means that a case does not belong to the schema it is used with.
	CaseMismatch diag.Code = "gen-case-mismatch"
	// CaseVersion means that a case was made by another version of the generator.
	CaseVersion diag.Code = "gen-case-version"
	// EmptyDomain means that an input's domain holds no value of its dtype.
	EmptyDomain diag.Code = "gen-empty-domain"
	// BadFuzzConfig means that a configuration of the published fuzzer cannot be used.
	BadFuzzConfig diag.Code = "gen-bad-fuzz-config"
)
