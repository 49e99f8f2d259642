// Package litmus decides from the axioms of the PTX memory model whether a small program has a data race.
//
// It is the second side of the emulator's race detection: it shares no code with it, knows no warp scheduler, no
// clocks and no shadow memory. [Parse] reads programs in a language of one line per instruction, [Program.Decide]
// enumerates their executions, [Program.PTX] writes them as kernels, and [Set] has the programs that tests run. Tests
// import the package, nothing else does.
//
// # The model
//
// The source is the chapter "Memory Consistency Model" of the PTX ISA (sections 8.2 to 8.11, sm_70 and later). Where
// that text leaves a choice, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model" (Lustig, Sahasrabuddhe,
// Giroux, ASPLOS 2019) decides. An execution gives every read, byte by byte, a write that it reads from (rf), and
// orders fence.sc operations (sc) and overlapping writes (co). Its relations:
//
//   - po, program order: the operations of one thread as written. An asynchronous copy is after what its thread did
//     before it, and otherwise in no program order (8.9.1.1).
//   - strong: fences, and accesses that are relaxed, acquire, release, acq_rel or volatile (which is relaxed.sys), and
//     atom and red, which are relaxed.gpu where they say nothing. A scope includes threads: cta, cluster (a block
//     alone, if the launch says nothing), gpu, sys.
//   - morally strong, of two operations: in program order, or both strong with scopes that include each other's
//     thread; and, if both access memory, exactly the same bytes (8.7).
//   - release pattern on M: a release operation on M; or one followed in po by a strong write of M; or a fence
//     (acq_rel, sc, release) followed in po by a strong write of M. Acquire pattern on M: an acquire operation on M;
//     or a strong read of M followed in po by one; or a strong read of M followed in po by a fence (acq_rel, sc,
//     acquire). A red is no read in this sense (8.8, 8.11.1).
//   - obs, observation order: W to R if they are morally strong and R reads W; transitive over atomic operations in
//     the middle (8.9.2), atom and red.
//   - sync: fence.sc to fence.sc as sc has them, for every morally strong pair; what arrives at a barrier to those who
//     wait in the same phase; bar.warp.sync to bar.warp.sync of the lanes of its mask ("guarantees memory ordering
//     among participating threads"); the first operation of a release pattern to the last of an acquire pattern, if
//     these two are morally strong and the pattern's write is observed by the pattern's read (8.9.4). An asynchronous
//     copy precedes the wait_group of its thread that covers it.
//   - base, base causality order: the transitive closure of po and sync. It has no cycle.
//   - cause, causality order: base, and obs followed by base to an operation on the same bytes (8.9.5).
//
// An execution is one of the program if it keeps the axioms of section 8.10:
//
//   - Coherence: cause between overlapping writes is in co. Every morally strong pair of overlapping writes is in co.
//   - Fence-SC: sc does not contradict cause; base without cycles says so.
//   - Atomicity: an atomic operation reads no write that a morally strong write lies between it and in co. A read that
//     takes a byte from a morally strong write takes none from a write before that.
//   - No thin air: rf and dependencies (data, address, control to later writes) have no cycle.
//   - SC per location: po between overlapping operations with the morally strong part of rf, co and fr has no cycle.
//   - Causality: no read reads a write that it precedes in cause, nor one that co has before a write that precedes the
//     read in cause.
//
// Two operations of which one writes and that overlap are a data race if cause does not order them and they are not
// morally strong (8.7.1). A program is racy if one of its executions that end has a race. A loop that spins is one
// read that sees what it waits for, after at most one that does not: a race takes part with one access of the loop, and
// without the others there are fewer constraints, not more.
//
// Two stores of one value to the same bytes race by the letter, but what memory holds does not show it. By lanes of a
// warp in one instruction they are a [Note], otherwise a [SameValue].
//
// # Limits
//
// The axioms do not apply to programs with races of partial overlap (8.7.2). Such programs are judged all the same:
// the race is there whatever values are read, and conditions in them must not depend on what races. Values of shfl,
// vote and activemask are not followed; a condition that depends on one is an error. Proxies other than the generic
// one are not expressed.
package litmus
