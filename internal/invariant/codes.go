package invariant

import "gpuemu/internal/diag"

const (
	// UnknownName: there is no invariant of that name.
	UnknownName diag.Code = "invariant-unknown-name"
	// BadParameters: an invariant has parameters that it does not take, or lacks those it needs.
	BadParameters diag.Code = "invariant-bad-parameters"
	// BadContext: what is to be checked does not fit together: no output, storage too short, regions of other lengths.
	BadContext diag.Code = "invariant-bad-context"
)
