#!/bin/sh
# make-fixtures.sh: makes the part of testdata/ptx anew that needs no GPU: the kernels of testdata/kernels through clang
# 14, 16, 19 and 22. Other patch releases of these compilers may write other text; testdata/ptx/README.md names ours.
set -eu
cd "$(dirname "$0")/.."
for v in 14 16 19 22; do
	command -v "clang-$v" >/dev/null || {
		echo "clang-$v is missing: apt-get install clang-14 clang-16 clang-19 clang-22 (Debian 12)" >&2
		exit 1
	}
done
exec "${PYTHON:-python3}" tools/fixtures.py
