//go:build !purego

package ptxmath

import "golang.org/x/sys/cpu"

// This file implements the choice of loops on amd64.

var hasAVX2 = cpu.X86.HasAVX2 // and the system saves its registers

func addProducts(sum, top *[Width]int32, sigA, expA, sigB, expB []int32, up, down int) {
	if !hasAVX2 {
		addGo(sum, top, sigA, expA, sigB, expB, up, down)
		return
	}
	n := len(sigA)
	_, _, _ = expA[n-1], sigB[n*Width-1], expB[n*Width-1]
	addAVX2(sum, top, &sigA[0], &expA[0], &sigB[0], &expB[0], n, up, down)
}

// addAVX2 is [addGo] for n products, at least one.
//
//go:noescape
func addAVX2(sum, top *[Width]int32, sigA, expA, sigB, expB *int32, n, up, down int)

func addWarpTile(x *WarpTile) bool { return hasAVX2 && addWarpTileAVX2(x) }

// addWarpTileAVX2 is [WarpTile.Add].
//
//go:noescape
func addWarpTileAVX2(x *WarpTile) bool
