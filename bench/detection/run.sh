#!/bin/sh
# run.sh RUN [FLAGS]: one run of the detection study (detection without arguments lists the runs). Without cgo the program
# is one file that runs on any machine of its kind: .cache/bench/detection.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .cache/bench
CGO_ENABLED=0 ${GO:-go} build -buildvcs=auto -o .cache/bench/detection ./bench/detection
exec .cache/bench/detection "$@"
