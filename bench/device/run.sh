#!/bin/sh
# run.sh: everything that needs a GPU, from the root of a checkout with a static bin/gpuemu (make build). It needs
# PyTorch with CUDA, Triton, CuPy and pytest, no network and no Go; about five minutes on an H200 with 16 cores. Records
# go to $OUT, default .cache/device: planted.md and controls.md, kept as docs/evidence/gpu-planted.md and gpu-pytorch.md.
set -u
export OUT="${OUT:-$PWD/.cache/device}" GPUEMU_BINARY="$PWD/bin/gpuemu" PYTHONPATH="$PWD/python/src"
GPUEMU_HOME=$(mktemp -d)
export GPUEMU_HOME
trap '"$GPUEMU_BINARY" daemon stop >/dev/null 2>&1; rm -rf "$GPUEMU_HOME"' EXIT
python=${PYTHON:-python3}
mkdir -p "$OUT"
failed=0
step() {
	echo "== $1"
	shift
	"$@" >"$OUT/log.txt" 2>&1 || failed=1
	tail -n "${LINES_SHOWN:-16}" "$OUT/log.txt"
}
step "planted bugs" "$python" bench/device/planted.py --budget "${BUDGET:-250}"
step "PyTorch's kernels" "$python" bench/device/controls.py --budget "${BUDGET:-250}"
step "tests of the package" "$python" -m pytest -q python
exit $failed
