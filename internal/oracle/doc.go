// Package oracle is the catalogue of operators with their native fp64 references.
//
// A reference computes, for every element of every output, the exact value before any rounding to the output type, a
// bound on the error of every implementation that keeps the operator's contract, and a mark where the contract does
// not decide (Undetermined). It does not judge: package compare does that with the Want this package returns, and it
// draws no inputs: package gen does.
//
// The main type is Op, one entry of the catalogue; Evaluate runs its reference. References compute in num, a value
// with the error an implementation may have made so far; see there for the rules and their source. Adding an operator
// means adding one entry, with its schema, contract and reference, to the file of its family.
package oracle
