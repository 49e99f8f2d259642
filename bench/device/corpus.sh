#!/bin/sh
# corpus.sh: the corpus of internal/corpus on a GPU, from the root of a checkout with a static gpuemu ($GPUEMU_BINARY,
# default bin/gpuemu: make build). It needs PyTorch with CUDA and compute-sanitizer, no network and no Go; at most eight
# minutes on an H200 with 16 cores. Three steps, each with its own time, in seconds:
#
#	CHECK_SECONDS        every base kernel and mutant on the cases of the emulator's study
#	EQUIVALENCE_SECONDS  mutants that none of these cases showed to be wrong, bit by bit against their base kernels
#	SANITIZE_SECONDS     mutants that gave the same bits everywhere, and their bases, under compute-sanitizer
#
# IDS names a file with further mutants for the last two, an id a line: those that are equal in the emulator. Arguments
# go to all three (--held-out, --only, --workers, --dry: bench/device/corpus.py --help). Records go to $OUT, default
# .cache/device: device.jsonl, equivalence.jsonl, sanitize.jsonl, kept in bench/detection/records. What did not fit into
# the time is in them as not run. PYTHON and CUDA_HOME name other places than python3 and /usr/local/cuda.
set -u
PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
OUT="${OUT:-$PWD/.cache/device}"
GPUEMU_BINARY="${GPUEMU_BINARY:-$PWD/bin/gpuemu}"
PYTHONPATH="$PWD/python/src"
export PATH OUT GPUEMU_BINARY PYTHONPATH PYTHONDONTWRITEBYTECODE=1
python=${PYTHON:-python3}
mkdir -p "$OUT"
failed=0
step() {
	echo "== $1"
	log="$OUT/log-$2.txt"
	shift 2
	"$python" bench/device/corpus.py "$@" >"$log" 2>&1 || failed=1
	tail -n 3 "$log"
}
step "values and guards" check --budget "${CHECK_SECONDS:-270}" "$@"
step "bit by bit" equivalence --budget "${EQUIVALENCE_SECONDS:-50}" --equivalence missed ${IDS:+"$IDS"} "$@"
step "compute-sanitizer" sanitize --budget "${SANITIZE_SECONDS:-130}" --sanitize equal ${IDS:+"$IDS"} "$@"
exit $failed
