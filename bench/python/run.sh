#!/bin/sh
# run.sh [FLAGS]: the client against the published one. Sets up both once, in .cache, and passes the flags on (-h lists
# them).
set -eu
cd "$(dirname "$0")/../.."
sh bench/venv.sh
sh tools/setup-published.sh
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/ ./cmd/gpuemu
exec .cache/bench-venv/bin/python bench/python/throughput.py "$@"
