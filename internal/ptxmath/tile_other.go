//go:build !amd64 || purego

package ptxmath

func addProducts(sum, top *[Width]int32, sigA, expA, sigB, expB []int32, up, down int) {
	addGo(sum, top, sigA, expA, sigB, expB, up, down)
}

func addWarpTile(*WarpTile) bool { return false }
