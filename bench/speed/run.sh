#!/bin/sh
# run.sh [FLAGS]: the speed table against numpy. Sets up numpy once, in .cache, and passes the flags on (-h lists them).
set -eu
cd "$(dirname "$0")/../.."
sh bench/venv.sh

# Built, not run by "go run": the compiler must not be at work while something is timed.
mkdir -p .cache/bench
${GO:-go} build -o .cache/bench/speed ./bench/speed
exec .cache/bench/speed -python "$PWD/.cache/bench-venv/bin/python" -o .cache/bench/speed.md "$@"
