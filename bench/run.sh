#!/bin/sh
# run.sh [speed|engine|artifacts|emulator|receipts|python] [FLAGS]: one table with flags, or all without any. Flags alone are those of the speed table.
set -eu
cd "$(dirname "$0")/.."
python() {
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/gpuemu
	.cache/python-venv/bin/python bench/python/throughput.py "$@"
}
case ${1-} in
"") sh bench/speed/run.sh && sh bench/engine/run.sh && sh bench/artifacts/run.sh && sh bench/emulator/run.sh && sh bench/receipts/run.sh && python ;;
speed | engine | artifacts | emulator | receipts) table=$1 && shift && exec sh "bench/$table/run.sh" "$@" ;;
python) shift && python "$@" ;;
*) exec sh bench/speed/run.sh "$@" ;;
esac
