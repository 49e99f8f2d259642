//go:build !amd64 || purego

// This file implements the choice of kernels where there is no assembly: the operations of num do everything.

package oracle

func (m *arith) addFast(dst, a, b bulk, sign uint64) (ok, done bool)   { return false, false }
func (m *arith) mulFast(dst, a, b bulk) (ok, done bool)                { return false, false }
func (m *arith) divFast(dst, a, b bulk, least float64) (ok, done bool) { return false, false }
func (m *arith) expFast(dst, a bulk) (ok, done bool)                   { return false, false }
func capFast(a bulk, top float64) bool                                 { return false }
func extentFast(x []float64, r *extent) int                            { return 0 }
func (b *dotBound) groups(v, e []float64) int                          { return 0 }
