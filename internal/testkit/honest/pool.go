// This file implements pooling.

package honest

// pool calls f with the values of each window; padding is not among them.
func pool(e *eval, f func(window []float64, kernel int) float64) {
	a, ok := e.in("input", 4)
	spec := e.call.Outputs["output"]
	if !ok {
		return
	}
	if len(spec.Shape) != 4 {
		e.fail("output has shape %s", spec.Shape)
		return
	}
	h, w, oh, ow := a.Shape[2], a.Shape[3], spec.Shape[2], spec.Shape[3]
	kernel, stride, pad := e.int("kernel", 2), e.int("stride", 2), e.int("padding", 0)
	out := e.out("output", a.Shape[0]*a.Shape[1]*oh*ow)
	buf := e.scratch(6, kernel*kernel)
	for i := range out {
		y, x := i/ow%oh*stride-pad, i%ow*stride-pad
		plane := a.X[i/(oh*ow)*h*w:]
		n := 0
		for r := max(y, 0); r < min(y+kernel, h); r++ {
			for c := max(x, 0); c < min(x+kernel, w); c++ {
				buf[n] = plane[r*w+c]
				n++
			}
		}
		out[i] = f(buf[:n], kernel)
	}
}

func maxPool2d(e *eval) {
	pool(e, func(win []float64, _ int) float64 { return e.reduceMax(win) })
}

// avgPool2d divides by the size of the kernel, padding included, unless told otherwise.
func avgPool2d(e *eval) {
	all := e.flag("count_include_pad", true)
	pool(e, func(win []float64, kernel int) float64 {
		n := kernel * kernel
		if !all {
			n = len(win)
		}
		return e.mean(e.Sum(win), n)
	})
}
