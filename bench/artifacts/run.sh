#!/bin/sh
# run.sh [FLAGS]: how fast compiled kernels are read. Passes the flags on (-h lists them).
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .cache/bench
${GO:-go} build -o .cache/bench/artifacts ./bench/artifacts
exec .cache/bench/artifacts "$@"
