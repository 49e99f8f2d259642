package campaign

import (
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/shrink"
)

// This file implements minimisation of a case that only a client can execute. The search is deterministic and asks one
// question at a time, so it needs no memory: it is run again with the answers so far, up to the first unanswered
// question. That costs the square of the number of questions in cheap steps, none of which executes anything.

// Simpler is a minimisation by a client.
type Simpler struct {
	Case     opspec.Case
	Schema   *opspec.Schema  // nil: that of the op
	Tried    map[string]bool // text of a case: it fails in the same way
	Strategy string          // MinimiseAll or MinimiseDims; "": MinimiseAll
	MaxIters int             // 0: DefaultMinimiseIters
	AnyDType bool            // cases of simpler dtypes are proposed, too
}

// Next returns the next case to try and the simplest one that is known to fail. more is false where the search is over.
func (e *Engine) Next(p Project, req Simpler) (next, best opspec.Case, more bool, err error) {
	settings := MinimiseRequest{Strategy: req.Strategy, MaxIters: req.MaxIters}
	if err := settings.check(); err != nil {
		return next, best, false, err
	}
	if settings.Strategy == MinimiseValues {
		return next, best, false, diag.Errorf(BadOptions, "use "+MinimiseDims+" or "+MinimiseAll,
			"single values can be shrunk only where the engine executes the op")
	}
	if v := commonValues(req.Case); v == valuesStored || v == valuesPublished {
		return req.Case, req.Case, false, nil // its values do not follow from a seed: nothing can be resized
	}
	schema := req.Schema
	if schema == nil {
		s, err := resolveSubject(p.Config, req.Case.Op)
		if err != nil {
			return next, best, false, inPython(err, req.Case)
		}
		schema = s.schemaOf(req.Case)
	}
	opt := shrink.Options{Budget: settings.MaxIters, DimsOnly: settings.Strategy == MinimiseDims, AnyDType: req.AnyDType}
	best, _ = shrink.Case(schema, req.Case, opt, func(c opspec.Case) bool {
		fails, known := req.Tried[c.String()]
		if !known && !more {
			next, more = c, true
		}
		return fails && !more
	})
	return next, best, more, nil
}
