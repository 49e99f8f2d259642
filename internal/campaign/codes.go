package campaign

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package.

const (
	// UnknownOp means that neither the configuration nor the catalogue has an op of that name.
	UnknownOp diag.Code = "campaign-unknown-op"
	// UnknownAttr means that an op's configuration sets an attribute that its schema does not have.
	UnknownAttr diag.Code = "campaign-unknown-attr"
	// InputNames means that an op's input names do not fit the catalogue entry it refers to.
	InputNames diag.Code = "campaign-input-names"
	// Layouts means that an op asks for memory layouts that its kernel is not told of.
	Layouts diag.Code = "campaign-layouts"
	// NoBatch means that an op has an invariant of batches, and no output with a batch dimension.
	NoBatch diag.Code = "campaign-no-batch"
	// NothingToRun means that the configuration and the options leave no case at all.
	NothingToRun diag.Code = "campaign-nothing-to-run"
	// BadOptions means that an option of a run is out of range or contradicts another.
	BadOptions diag.Code = "campaign-bad-options"
	// NoBound means that the regime "bound" is asked for and there is none for the op.
	NoBound diag.Code = "campaign-no-bound"
	// NoSpread means that the regime "spread" is asked for and the op has no reference that can be evaluated again.
	NoSpread diag.Code = "campaign-no-spread"
	// NoCalibration means that the regime "calibrated" is asked for and none is stored for the op and dtype.
	NoCalibration diag.Code = "campaign-no-calibration"
	// NotResumable means that there is no interrupted campaign to continue, or that what it ran has changed since.
	NotResumable diag.Code = "campaign-not-resumable"
	// UnknownCase means that no stored case has that seed, and the text is not a canonical case.
	UnknownCase diag.Code = "campaign-unknown-case"
	// CaseTooLarge means that a request names a case that would take more memory than one may.
	CaseTooLarge diag.Code = "campaign-case-too-large"
	// NotFailing means that a case cannot be minimised because it does not fail.
	NotFailing diag.Code = "campaign-not-failing"
	// NotExecutable means that a case cannot be executed here: its candidate runs on a client.
	NotExecutable diag.Code = "campaign-not-executable"
	// TooFewSamples means that too few cases of a calibration could be compared.
	TooFewSamples diag.Code = "campaign-too-few-samples"
)
