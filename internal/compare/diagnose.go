// This file implements the diagnosis.

package compare

func diagnose(p *plan, wrong bitmap, rep *Report) []Finding { return nil }
