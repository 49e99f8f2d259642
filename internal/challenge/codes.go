package challenge

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package, and its reasons to refuse a receipt.

const (
	// BadChallenge means that a challenge cannot be made as asked: its operator, dtype, digest, nonce or count.
	BadChallenge diag.Code = "challenge-bad"
	// BadOutputs means that outputs do not belong to the case they are given for.
	BadOutputs diag.Code = "challenge-bad-outputs"
)

// Reason says for machines what is wrong with a challenge. Values are stable; docs/formats/receipt.md lists them.
type Reason string

const (
	// Malformed: it names an operator, dtype, attribute or number of cases that there is not.
	Malformed Reason = "challenge_malformed"
	// OtherSeed: its seed does not follow from the code and the nonce.
	OtherSeed Reason = "challenge_seed"
	// OtherCases: a case is missing, stands elsewhere, or is not the one that follows from the seed.
	OtherCases Reason = "challenge_cases"
	// OtherInputs: the inputs had other bytes than those that follow from the case.
	OtherInputs Reason = "challenge_inputs"
	// OutputMissing: outputs, or data that fits into the receipt, are not there.
	OutputMissing Reason = "challenge_output_missing"
	// OutputForm: an output has another shape, dtype or digest than it should have.
	OutputForm Reason = "challenge_output_form"
	// OutputWrong: a recorded output is outside the bound of the reference.
	OutputWrong Reason = "challenge_output_wrong"
	// KernelMissing: the kernel that is named is not in the tree, or not in what was signed.
	KernelMissing Reason = "challenge_kernel_missing"
	// KernelWrong: the kernel that is named is wrong in the emulator, or does something it must not.
	KernelWrong Reason = "challenge_kernel_wrong"
	// Unchecked: it could not be told, because nothing was recorded, or the emulator does not run the kernel.
	Unchecked Reason = "challenge_unchecked"
)

// Reasons are all of them, with one sentence each.
func Reasons() []struct {
	Reason Reason
	Doc    string
} {
	type row = struct {
		Reason Reason
		Doc    string
	}
	return []row{
		{Malformed, "a challenge names an operator, dtype, attribute or number of cases that there is not"},
		{OtherSeed, "the seed of a challenge does not follow from the code and the nonce"},
		{OtherCases, "a case of a challenge is missing or is not the one that follows from the seed"},
		{OtherInputs, "the inputs of a case had other bytes than those that follow from its text"},
		{OutputMissing, "outputs of a case, or data that fits into the receipt, are not there"},
		{OutputForm, "a recorded output has another shape, dtype or digest than it should have"},
		{OutputWrong, "a recorded output lies outside the error bound of the reference"},
		{KernelMissing, "the kernel that a challenge names is not among the files that were signed"},
		{KernelWrong, "the kernel that a challenge names computes wrong values in the emulator, or does what it must not"},
		{Unchecked, "a challenge could not be checked: nothing was recorded, or the emulator does not run the kernel"},
	}
}
