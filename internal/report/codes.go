// This file implements the stable codes of the errors this package returns.

package report

import "gpuemu/internal/diag"

const (
	// NotAReport: a file that should be a report in JSON is empty, is no JSON, ends too early, or is JSON of another kind.
	NotAReport diag.Code = "report-not-a-report"
	// BadVersion: a report has a format version that this gpuemu does not read.
	BadVersion diag.Code = "report-bad-version"
	// TooLarge: a report is larger, or has more or larger results, than gpuemu reads.
	TooLarge diag.Code = "report-too-large"
	// BadResult: a result in a report has a value that no run can have given.
	BadResult diag.Code = "report-bad-result"
	// Inconsistent: the counts in a report's summary are not those of its results. The file was edited or cut, or the
	// results changed while the report was written.
	Inconsistent diag.Code = "report-inconsistent"
	// Unreadable: a report could not be opened or read.
	Unreadable diag.Code = "report-unreadable"
	// BadThreshold: the regression threshold is negative or not a number.
	BadThreshold diag.Code = "report-bad-threshold"
	// NotMergeable: reports do not belong to one campaign: project, kind, seed, version, number of cases or of shards
	// differ, or a result is not of the shard that the report names.
	NotMergeable diag.Code = "report-not-mergeable"
	// UnknownFormat: there is no report format of that name.
	UnknownFormat diag.Code = "report-unknown-format"
	// Contradiction: two reports have different verdicts on the same case of the same campaign.
	Contradiction diag.Code = "report-contradiction"
)
