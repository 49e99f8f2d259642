package compare

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// passFunc is a pass that is one function.
type passFunc func(lo, hi int) error

func (f passFunc) segment(lo, hi int) error { return f(lo, hi) }

func TestRunPassesPanicsOn(t *testing.T) {
	for _, workers := range []int{1, 4} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.HasPrefix(r, "on purpose") {
					t.Errorf("run with %d workers panics with %q, want the panic of a pass", workers, r)
				}
			}()
			_, _ = run(8*segmentElems, workers, func() pass {
				return passFunc(func(lo, hi int) error { panic("on purpose") })
			})
		}()
	}
}

func TestRunReturnsErrorOfLowestSegment(t *testing.T) {
	low, high := errors.New("low"), errors.New("high")
	for _, workers := range []int{1, 2, 8} {
		_, err := run(8*segmentElems, workers, func() pass {
			return passFunc(func(lo, hi int) error {
				switch lo / segmentElems {
				case 2:
					return low
				case 5:
					return high
				}
				return nil
			})
		})
		if !errors.Is(err, low) {
			t.Errorf("run with %d workers = %v, want the error of segment 2", workers, err)
		}
	}
}
