// This file implements the planted faults: what they are and to which ops they apply.

package honest

import "slices"

// Fault is a defect planted in every op it applies to. A machine with a fault is not honest.
type Fault uint8

// The faults. The zero value is none.
const (
	NoFault       Fault = iota
	DropTerm            // the middle term of each reduction is left out
	SkipTile            // the last partial tile of 16 terms, or the last whole one, is left out
	NarrowAcc           // the accumulator has the case's dtype (no fault where that is A)
	WrongConstant       // constants and attributes are 1 % too large
	DropLast            // the last element of each output row is not written: 0
	OffByOne            // indices and masks are off by one, else the outputs of a row are shifted by one
	SwallowNaN          // maximum and selection prefer the number to the NaN
	numFaults
)

var faultNames = [numFaults]string{"none", "drop-term", "skip-tile", "narrow-acc", "wrong-constant", "drop-last",
	"off-by-one", "swallow-nan"}

// String returns the name of the fault.
func (f Fault) String() string {
	if f < numFaults {
		return faultNames[f]
	}
	return "invalid"
}

// Faults returns every fault but none.
func Faults() []Fault {
	all := make([]Fault, 0, numFaults-1)
	for f := NoFault + 1; f < numFaults; f++ {
		all = append(all, f)
	}
	return all
}

// traits are what the faults need to know of an op.
type traits struct {
	reduces  bool // has a reduction over an axis
	adds     bool // and it is a sum
	constant bool // has a constant or an attribute in its formula
	noNaN    bool // has no NaN in its domain, or none that is judged
}

// Applies reports whether a fault makes a difference to an op for at least some inputs.
func Applies(op string, f Fault) bool {
	i := slices.IndexFunc(catalogue, func(e entry) bool { return e.name == op })
	if i < 0 {
		return false
	}
	t := catalogue[i].traits
	switch f {
	case DropTerm, SkipTile:
		return t.reduces
	case NarrowAcc:
		return t.adds
	case WrongConstant:
		return t.constant
	case DropLast, OffByOne:
		return true
	case SwallowNaN:
		return !t.noNaN
	}
	return false
}
