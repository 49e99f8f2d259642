#!/bin/sh
# run.sh [FLAGS]: how long gpu-proof takes over a large repository. Passes the flags on (-h lists them).
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .cache/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o .cache/bench/gpu-proof ./cmd/gpu-proof
${GO:-go} build -o .cache/bench/receipts ./bench/receipts
exec .cache/bench/receipts -program .cache/bench/gpu-proof "$@"
