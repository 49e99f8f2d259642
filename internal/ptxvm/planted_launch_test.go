package ptxvm

import "math"

// This file implements the launches of the kernels of testdata/kernels/planted.

// plantedLaunch is how a kernel with a planted defect and its sound twin are started.
type plantedLaunch struct {
	kernel      string
	grid, block Dim
	shared      int
	args        []Arg
	schedules   int
}

// given is memory with values that a kernel reads, and may change.
func given[T any](name string, v ...T) Arg {
	b := pack(v...)
	return Arg{Name: name, Buffer: b, Role: InOut, Element: len(b) / max(len(v), 1)}
}

// input is memory with values that a kernel is to read only.
func input[T any](name string, v ...T) Arg {
	a := given(name, v...)
	a.Role = In
	return a
}

// result is memory of n elements that a kernel writes.
func result(name string, n, size int) Arg {
	return Arg{Name: name, Buffer: make([]byte, n*size), Role: Out, Uninitialised: true, Element: size}
}

// workspace is memory that nobody has set, and nobody need write it.
func workspace(name string, n, size int) Arg {
	a := result(name, n, size)
	a.Role = InOut
	return a
}

// zeros is a result that a kernel adds to.
func zeros(name string, n int) Arg { return given(name, make([]int32, n)...) }

func scalar(v int32) Arg { return value(v) }

func ints(n int, f func(i int) int32) []int32 { return sequence(n, f) }

func identity(i int) int32 { return int32(i) }

func plantedLaunches() []plantedLaunch {
	var all []plantedLaunch
	for _, family := range [][]plantedLaunch{boundsLaunches(), uninitLaunches(), sharedLaunches(), globalLaunches(),
		barrierLaunches(), maskLaunches(), copyLaunches(), orderLaunches()} {
		all = append(all, family...)
	}
	return all
}

func boundsLaunches() []plantedLaunch {
	x := mixed(256)
	unit := sequence(64, func(i int) float32 { return float32(i) / 63 })
	bytes := sequence(5*64+8, func(i int) uint8 { return uint8(i) })
	return []plantedLaunch{
		{"fill_one_more", line(2), line(64), 0, []Arg{result("y", 100, 4), scalar(100)}, 0},
		{"stencil_right_edge", line(2), line(64), 0, []Arg{given("x", x[:100]...), result("y", 100, 4), scalar(100)}, 0},
		{"guard_on_wrong_dimension", Dim{2, 2, 1}, Dim{16, 16, 1}, 0,
			[]Arg{result("y", 20*24, 4), scalar(20), scalar(24)}, 0},
		{"halo_in_shared", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"neighbour_in_shared", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"into_the_next_array", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"local_bins", line(1), line(32), 0, []Arg{given("x", ints(9, identity)...), result("y", 32, 4), scalar(9)}, 0},
		{"constant_table", line(1), line(32), 0,
			[]Arg{given("x", ints(20, identity)...), result("y", 20, 4), scalar(20)}, 0},
		{"index_overflows", line(1), line(64), 0, []Arg{given("x", x[:100]...), result("y", 64, 4), scalar(100)}, 0},
		{"offset_narrowed", line(1), line(64), 0,
			[]Arg{given("x", make([]float32, 40000)...), result("y", 40, 4), scalar(40),
				scalar(1000)}, 0},
		{"dynamic_too_small", line(1), line(64), 256, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"vector_tail", line(1), line(64), 0, []Arg{given("x", x[:102]...), given("y", x[:26]...), scalar(102)}, 0},
		{"gather_unchecked", line(1), line(32), 0,
			[]Arg{given("index", ints(32, func(i int) int32 { return int32(i) - 1 })...),
				given("x", x[:32]...), result("y", 32, 4), scalar(32)}, 0},
		{"histogram_top", line(1), line(64), 0, []Arg{given("x", unit...), zeros("bins", 10), scalar(64), scalar(10)}, 0},
		{"countdown", line(1), line(32), 0, []Arg{given("x", x[:20]...), result("y", 32, 4), scalar(20)}, 0},
		{"scales_its_input", line(2), line(32), 0, []Arg{input("x", x[:50]...), result("y", 50, 4), scalar(50)}, 0},
		{"vector_at_odd_offset", line(1), line(32), 0, []Arg{given("x", x[:132]...), result("y", 32, 4), scalar(1)}, 0},
		{"pair_in_shared", line(1), line(64), 0, []Arg{given("x", x[:128]...), result("y", 64, 8), scalar(1)}, 0},
		{"packed_records", line(1), line(64), 0, []Arg{given("x", bytes...), result("y", 64, 4)}, 0},
		{"half_pairs", line(1), line(32), 0, []Arg{given("y", make([]uint16, 66)...), scalar(1)}, 0},
		{"atomic_on_bytes", line(1), line(32), 0, []Arg{given("y", make([]uint8, 16)...)}, 0},
	}
}

func uninitLaunches() []plantedLaunch {
	x := mixed(256)
	return []plantedLaunch{
		{"tail_of_tile", line(1), line(64), 0, []Arg{given("x", x[:50]...), result("y", 64, 4), scalar(50)}, 0},
		{"return_before_fill", line(1), line(64), 0, []Arg{given("x", x[:50]...), result("y", 1, 4), scalar(50)}, 0},
		{"accumulator", line(1), line(32), 0, []Arg{given("x", x[:1]...), result("y", 32, 4), scalar(1), scalar(0)}, 0},
		{"local_not_cleared", line(1), line(32), 0,
			[]Arg{given("x", ints(20, identity)...), result("y", 32, 4), scalar(20)}, 0},
		{"counter_not_cleared", line(1), line(64), 0, []Arg{given("x", x[:64]...), given("y", make([]int32, 64)...),
			scalar(64)}, 0},
		{"flag_not_cleared", line(1), line(64), 0, []Arg{given("x", x[:64]...), given("y", x[:64]...), scalar(64)}, 0},
		{"workspace_read_first", line(2), line(32), 0, []Arg{given("x", x[:64]...), workspace("work", 64, 4),
			result("y", 64, 4)}, 0},
		{"output_accumulated", line(2), line(32), 0, []Arg{given("x", x[:60]...), result("y", 60, 4), scalar(60)}, 0},
		{"column_of_matrix", line(1), Dim{16, 16, 1}, 0, []Arg{given("x", x...), result("y", 256, 4)}, 0},
		{"shuffle_of_nothing", line(1), line(32), 0, []Arg{given("x", x[:8]...), result("y", 1, 4)}, 0},
		{"shuffle_of_ended_lanes", line(1), line(32), 0, []Arg{given("x", x[:20]...), result("y", 1, 4), scalar(20)}, 0},
		{"last_not_written", line(2), line(64), 0, []Arg{given("x", x[:100]...), result("y", 100, 4), scalar(100)}, 0},
		{"tail_not_written", line(1), line(32), 0, []Arg{given("x", x[:102]...), result("y", 102, 4), scalar(102)}, 0},
		{"rows_skipped", line(4), Dim{16, 2, 1}, 0, []Arg{result("y", 160, 4), scalar(8), scalar(20)}, 0},
	}
}

func sharedLaunches() []plantedLaunch {
	x := mixed(256)
	bins := given("x", ints(64, func(i int) int32 { return int32(i * i) })...)
	return []plantedLaunch{
		{"reverse", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"tile_reused", line(1), line(64), 0, []Arg{given("x", x...), result("y", 64, 4), scalar(4)}, 0},
		{"one_slot_for_all_warps", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 1, 4)}, 0},
		{"tree_without_barrier", line(1), line(128), 0, []Arg{given("x", x[:128]...), result("y", 1, 4)}, 0},
		{"scan_in_place", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"buffers_not_swapped", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4), scalar(3)}, 0},
		{"bins_not_atomic", line(1), line(64), 0, []Arg{bins, result("y", 16, 4)}, 0},
		{"lanes_share_a_slot", line(1), line(32), 0, []Arg{given("x", ints(32, identity)...), result("y", 32, 4)}, 0},
		{"halves_of_a_warp", line(1), line(32), 0, []Arg{given("x", ints(32, identity)...), result("y", 32, 4)}, 0},
		{"half_reads_half_writes", line(1), line(32), 0, []Arg{given("x", ints(32, identity)...), result("y", 32, 4)}, 0},
		{"counter_cleared_too_late", line(1), line(64), 0, []Arg{bins, result("y", 1, 4)}, 0},
		{"broadcast", line(1), line(64), 0, []Arg{given("x", x[:1]...), result("y", 64, 4)}, 0},
		{"sum_read_too_early", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"matmul_one_barrier", line(1), Dim{8, 8, 1}, 0, []Arg{given("a", x[:128]...), given("b", x[128:]...),
			result("c", 64, 4), scalar(16)}, 0},
		{"transpose_without_barrier", line(1), Dim{16, 16, 1}, 0, []Arg{given("x", x...), result("y", 256, 4)}, 0},
		{"barrier_of_a_warp", line(1), line(64), 0, []Arg{given("x", x[:64]...), result("y", 64, 4)}, 0},
		{"flag_without_fence", line(1), line(64), 0, []Arg{given("x", int32(7)), result("y", 1, 4)}, 0},
	}
}

func globalLaunches() []plantedLaunch {
	x := mixed(256)
	last := []Arg{given("x", x[:128]...), workspace("part", 128, 4), zeros("arrived", 1), workspace("y", 32, 4)}
	return []plantedLaunch{
		{"sum_not_atomic", line(4), line(32), 0, []Arg{given("x", x[:128]...), given("sum", float32(0))}, 0},
		{"smooth_in_place", line(2), line(32), 0, []Arg{given("x", x[:64]...), workspace("y", 64, 4), scalar(64)}, 0},
		{"last_block_without_fence", line(4), line(32), 0, last, 0},
		{"fence_before_the_store", line(4), line(32), 0, last, 0},
		{"handshake_without_fence", line(2), line(1), 0,
			[]Arg{given("x", int32(4)), workspace("data", 1, 4), zeros("ready", 1),
				result("y", 1, 4)}, 0},
		{"lock_without_fence", line(4), line(32), 0, []Arg{zeros("lock", 1), zeros("counter", 1)}, 0},
		{"unlocked_by_store", line(4), line(32), 0, []Arg{zeros("lock", 1), zeros("counter", 1)}, 0},
		{"bins_in_global", line(2), line(32), 0, []Arg{given("x", ints(64, identity)...), zeros("bins", 8)}, 0},
		{"tiles_overlap", line(2), line(32), 0, []Arg{given("x", x[:64]...), workspace("y", 64, 4)}, 0},
		{"atomic_of_a_block", line(2), line(32), 0, []Arg{zeros("count", 1)}, 0},
		{"reset_beside_atomics", line(2), line(32), 0, []Arg{given("x", x[:64]...), given("count", int32(5))}, 0},
		{"scatter_clash", line(1), line(32), 0, []Arg{given("to", ints(32, func(i int) int32 { return int32(i / 3) })...),
			given("x", x[:32]...), given("y", x[:32]...)}, 0},
		{"transpose_in_place", line(32), line(32), 0,
			[]Arg{given("x", mixed(1024)...), workspace("y", 1024, 4), scalar(32)}, 0},
		{"counter_read_plainly", line(2), line(32), 0,
			[]Arg{given("x", x[:64]...), zeros("count", 1), workspace("y", 64, 4)}, 0},
		{"exchanged_in_memory", line(1), line(32), 0,
			[]Arg{given("slot", ints(64, identity)...), given("wide", int32(9), int32(9))}, 0},
		{"copy_of_another_warp", line(1), line(64), 0, []Arg{given("x", x[:32]...), workspace("y", 64, 4)}, 0},
	}
}

func barrierLaunches() []plantedLaunch {
	x := mixed(256)
	one := []Arg{given("x", x[:64]...), given("y", x[:64]...)}
	some := func(n int) []Arg { return append(one[:2:2], scalar(int32(n))) }
	return []plantedLaunch{
		{"barrier_in_branch", line(1), line(64), 0, some(50), 0},
		{"barrier_in_both_branches", line(1), line(64), 0, one, 0},
		{"barrier_in_uneven_loop", line(1), line(64), 0,
			[]Arg{given("x", x[:100]...), given("y", x[:64]...), scalar(100)}, 0},
		{"barrier_decided_by_data", line(1), line(64), 0, one, 0},
		{"barrier_in_function", line(1), line(64), 0, some(50), 0},
		{"too_few_for_the_barrier", line(1), line(64), 0, one, 0},
		{"consumers_alone", line(1), line(64), 0, one, 0},
		{"barriers_crossed", line(1), line(64), 0, one, 0},
		{"wrong_parity", line(1), line(64), 0, []Arg{result("y", 64, 4)}, 0},
		{"waits_for_one_block_more", line(3), line(32), 0, []Arg{zeros("arrived", 1)}, 0},
		{"lock_never_released", line(3), line(32), 0, []Arg{zeros("lock", 1), zeros("counter", 1)}, 0},
	}
}

func maskLaunches() []plantedLaunch {
	x := mixed(32)
	numbers := given("x", ints(32, func(i int) int32 { return int32(i % 5) })...)
	return []plantedLaunch{
		{"sum_in_branch", line(1), line(32), 0, []Arg{given("x", x[:20]...), result("y", 32, 4), scalar(20)}, 0},
		{"half_a_mask", line(1), line(32), 0, []Arg{given("x", x...), result("y", 32, 4)}, 0},
		{"warp_barrier_in_branch", line(1), line(32), 0, []Arg{numbers, result("y", 32, 4)}, 0},
		{"masks_differ", line(1), line(32), 0, []Arg{numbers, result("y", 32, 4)}, 0},
		{"vote_in_uneven_loop", line(1), line(32), 0, []Arg{numbers, result("y", 32, 4)}, 0},
		{"mask_of_another_branch", line(1), line(32), 0, []Arg{given("x", x...), result("y", 32, 4)}, 0},
		{"leader_alone", line(1), line(32), 0, []Arg{zeros("count", 1), result("y", 32, 4)}, 0},
	}
}

func copyLaunches() []plantedLaunch {
	x := mixed(256)
	one, two := []Arg{given("x", x[:32]...), result("y", 32, 4)}, []Arg{given("x", x[:64]...), result("y", 64, 4)}
	return []plantedLaunch{
		{"copy_not_waited_for", line(1), line(32), 0, one, 0},
		{"copy_not_committed", line(1), line(32), 0, one, 0},
		{"one_group_too_few", line(1), line(32), 0, []Arg{given("x", x[:160]...), result("y", 32, 4), scalar(5)}, 0},
		{"copies_of_other_threads", line(1), line(64), 0, two, 0},
		{"stage_overwritten", line(1), line(64), 0, []Arg{given("x", x...), result("y", 64, 4), scalar(4)}, 0},
		{"written_while_copied", line(1), line(32), 0, one, 0},
		{"bulk_not_waited_for", line(1), line(64), 0, two, 0},
		{"bulk_source_overwritten", line(1), line(64), 0, two, 0},
		{"expects_too_much", line(1), line(64), 0, two, 0},
	}
}

func orderLaunches() []plantedLaunch {
	x := mixed(128)
	nan := append(mixed(63), float32(math.NaN()))
	return []plantedLaunch{
		{"float_sum", line(4), line(32), 0, []Arg{given("x", x...), given("sum", float32(0)), zeros("exact", 1)}, 4},
		{"compacted", line(4), line(32), 0, []Arg{given("x", x...), zeros("y", 128), zeros("count", 1)}, 4},
		{"first_come", line(4), line(32), 0, []Arg{given("x", x...), given("winner", int32(math.MaxInt32))}, 4},
		{"last_come", line(4), line(32), 0, []Arg{given("x", ints(128, identity)...), zeros("y", 1)}, 4},
		{"assertion_fails", line(1), line(32), 0, []Arg{given("index", ints(32, identity)...), given("x", x[:30]...),
			given("y", x[:32]...), scalar(30)}, 0},
		{"trap_on_nan", line(1), line(64), 0, []Arg{given("x", nan...), given("y", nan...)}, 0},
		{"unreachable_case", line(1), line(32), 0,
			[]Arg{given("kind", ints(32, func(i int) int32 { return int32(i % 3) })...),
				zeros("y", 32)}, 0},
	}
}
