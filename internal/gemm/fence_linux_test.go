package gemm

import (
	"syscall"
	"testing"
	"unsafe"
)

// fenced returns n elements between two pages that must not be touched: flush with the end of their memory, or with its
// beginning. The assembly has no bounds checks; here it would crash the test.
func fenced(t *testing.T, n int, atEnd bool) []float64 {
	t.Helper()
	page := syscall.Getpagesize()
	size := roundUp(max(8*n, 1), page)
	prot, flags := syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE
	mem, err := syscall.Mmap(-1, 0, size+2*page, prot, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for _, at := range []int{0, page + size} {
		if err := syscall.Mprotect(mem[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	start := page
	if atEnd {
		start = page + size - 8*n
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&mem[start])), n)
}

// TestFences runs every path with each matrix against a fence.
func TestFences(t *testing.T) {
	ms, ns, ks := []int{1, 2, 3, 4, 5, 12, 19}, []int{1, 3, 4, 8, 11, 12, 13, 24, 37, 45}, []int{1, 3, 4, 8, 9, 33}
	const most = 45 * 45
	for _, atEnd := range []bool{false, true} {
		bufs := [4][]float64{}
		for i := range bufs {
			bufs[i] = fenced(t, most, atEnd)
		}
		cut := func(i, n int) []float64 {
			if atEnd {
				return bufs[i][most-n:]
			}
			return bufs[i][:n]
		}
		for _, m := range ms {
			for _, n := range ns {
				for _, k := range ks {
					for _, trans := range []bool{false, true} {
						src, opt := source(m*n*k), Options{LDA: k, LDB: n, LDC: n, TransB: trans, Threads: 1}
						if trans {
							opt.LDB = k
						}
						a, b := src.fill(cut(0, m*k), 0), src.fill(cut(1, k*n), 0)
						c, s := cut(2, m*n), cut(3, m*n)
						Mul(c, a, b, m, n, k, opt)
						MulAbs(c, s, a, b, m, n, k, opt)
						tr := trial{m: m, n: n, k: k, transB: trans}
						tr.compare(t, "MulAbs c", c, naive(a, b, m, n, k, opt, false), n)
						tr.compare(t, "MulAbs s", s, naive(a, b, m, n, k, opt, true), n)
					}
				}
			}
		}
	}
}
