#!/bin/sh
# run.sh [FLAGS]: how fast the emulator executes kernels, with checks and without. Passes the flags on (-h lists them).
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .cache/bench
${GO:-go} build -o .cache/bench/emulator ./bench/emulator
exec .cache/bench/emulator "$@"
