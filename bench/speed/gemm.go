// This file implements the rows of the matrix product.

package main

import (
	"fmt"
	"math"
	"runtime"

	"gpuemu/internal/gemm"
)

// gemmRows are the products of the oracle. Speed 0.8 and cost 2.2 are goals of the design; the small and narrow shapes
// are there so that they do not pay for it.
func gemmRows() []Row {
	cores := runtime.GOMAXPROCS(0)
	rows := []Row{
		product(512, 512, 512, 1, false, 0.8),
		product(1024, 1024, 1024, 1, false, 0.8),
	}
	if cores > 1 {
		rows = append(rows, product(512, 512, 512, cores, false, 0.8), product(1024, 1024, 1024, cores, false, 0.8))
	}
	return append(rows,
		product(1024, 1024, 1024, cores, true, 0.8),
		product(16, 16, 16, 1, false, 1),
		product(1, 4096, 4096, cores, false, 0.5),
		product(1, 4096, 4096, cores, true, 0.5),
		boundOverProduct(1024, cores),
		boundOverNumpy(1024, cores),
	)
}

// pattern returns n multiples of 2^-10 in [-0.5, 0.5), the same as numpy_side.py: sums of their products are exact, so
// that both sides have the same result in any order.
func pattern(n int, salt uint64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64((uint64(i)*2654435761+salt)>>7%1024)/1024 - 0.5
	}
	return x
}

func sumOfMagnitudes(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum
}

func threadsName(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func product(m, n, k, threads int, transB bool, goal float64) Row {
	name := fmt.Sprintf("matmul %d×%d×%d, %s", m, n, k, threadsName(threads))
	if transB {
		name = fmt.Sprintf("matmul %d×%d×%d, b transposed, %s", m, n, k, threadsName(threads))
	}
	setup := func(b *Bench) (Side, Side, error) {
		x, y, c := pattern(m*k, 1), pattern(k*n, 2), make([]float64, m*n)
		call := func() { gemm.Mul(c, x, y, m, n, k, gemm.Options{Threads: threads, TransB: transB}) }
		call()
		theirs, check, err := b.Numpy(threads, "matmul", map[string]any{"m": m, "n": n, "k": k, "trans_b": transB})
		if err != nil {
			return nil, nil, err
		}
		return timeOf(call), theirs, agree("sum of |c|", sumOfMagnitudes(c), check, 1e-12)
	}
	return Row{
		Name: name, Goal: Goal{Speed: goal}, Work: flops(m, n, k), Unit: "F", Setup: setup,
		Note: "The oracle's product of float64 matrices (gemm.Mul), whose bits depend neither on tiles nor on threads, " +
			"against numpy.matmul, into a given output.",
	}
}

// boundOverProduct compares the product with its magnitudes with the product alone, both ours.
func boundOverProduct(n, threads int) Row {
	setup := func(*Bench) (Side, Side, error) {
		x, y, c, s := pattern(n*n, 1), pattern(n*n, 2), make([]float64, n*n), make([]float64, n*n)
		opt := gemm.Options{Threads: threads}
		both := timeOf(func() { gemm.MulAbs(c, s, x, y, n, n, n, opt) })
		return both, timeOf(func() { gemm.Mul(c, x, y, n, n, n, opt) }), nil
	}
	name := fmt.Sprintf("matmul %d³ with bound over without, %s", n, threadsName(threads))
	return Row{
		Name: name, Goal: Goal{Cost: 2.2}, Setup: setup,
		Note: "The product and the product of magnitudes in one sweep (gemm.MulAbs) against gemm.Mul.",
	}
}

// boundOverNumpy compares the product and the product of magnitudes with numpy doing both.
func boundOverNumpy(n, threads int) Row {
	setup := func(b *Bench) (Side, Side, error) {
		x, y, c, s := pattern(n*n, 1), pattern(n*n, 2), make([]float64, n*n), make([]float64, n*n)
		call := func() { gemm.MulAbs(c, s, x, y, n, n, n, gemm.Options{Threads: threads}) }
		call()
		theirs, check, err := b.Numpy(threads, "matmul_abs", map[string]any{"m": n, "n": n, "k": n})
		if err != nil {
			return nil, nil, err
		}
		return timeOf(call), theirs, agree("sum of s", sumOfMagnitudes(s), check, 1e-12)
	}
	name := fmt.Sprintf("matmul %d³ with bound, %s", n, threadsName(threads))
	return Row{
		Name: name, Goal: Goal{Speed: 0.8}, Work: 2 * flops(n, n, n), Unit: "F", Setup: setup,
		Note: "gemm.MulAbs against numpy.matmul of the operands and of their magnitudes.",
	}
}

// flops returns the billions of additions and multiplications of a product.
func flops(m, n, k int) float64 { return 2 * float64(m) * float64(n) * float64(k) / 1e9 }
