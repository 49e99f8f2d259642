#!/bin/sh
# run.sh [FLAGS]: the table of the engine. Sets up numpy once, in .cache, and passes the flags on (-h lists them).
set -eu
cd "$(dirname "$0")/../.."
sh bench/venv.sh

# The program as make build makes it.
mkdir -p .cache/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -ldflags "-s -w -X main.version=bench" -o .cache/bench/gpuemu ./cmd/gpuemu
${GO:-go} build -o .cache/bench/engine ./bench/engine
exec .cache/bench/engine -python "$PWD/.cache/bench-venv/bin/python" -gpuemu .cache/bench/gpuemu \
	-o .cache/bench/engine.md "$@"
