#!/bin/sh
# soak.sh ORACLE_TEST ROWS: `make soak` on a machine with many cores and no Go. ORACLE_TEST is a static test binary of
# internal/oracle (CGO_ENABLED=0 go test -c ./internal/oracle), ROWS a file with an operator and a data type a line,
# "add float32". One process a row, as many at a time as there are cores, $SOAK cases each (default 100,000), for
# $SECONDS_LEFT seconds; rows go to $OUT/rows.md as they end, and what fails to $OUT/failures.txt. Call it again with the
# rows that are missing.
set -u
binary=$(realpath "$1")
rows=$(realpath "$2")
# A stray character would become part of a pattern of tests that selects all of them.
if grep -nvE '^[a-z0-9_]+ [a-z0-9_]+$' "$rows" >&2; then
	echo "soak.sh: these lines of $2 are no operator and data type, such as \"add float32\"" >&2
	exit 2
fi
OUT="${OUT:-$PWD/.cache/device}"
mkdir -p "$OUT/parts"
export binary OUT SOAK="${SOAK:-100000}"
cd "$(dirname "$0")/../../internal/oracle" || exit 1
timeout "${SECONDS_LEFT:-560}" xargs -P "${JOBS:-$(nproc)}" -L 1 sh -c '
	part="$OUT/parts/$1-$2"
	GOMAXPROCS=1 GPUEMU_SOAK="$SOAK" GPUEMU_SOAK_RECORD="$part.md" "$binary" -test.count=1 -test.timeout 0 \
		-test.run "^TestHonestImplementationsKeepTheBound\$/^ops\$/^$1\$/^$2\$" >"$part.log" 2>&1 ||
		cat "$part.log" >>"$OUT/failures.txt"
	grep "^| $1 " "$part.md" >>"$OUT/rows.md"' row <"$rows"
wc -l <"$OUT/rows.md"
rm -r "$OUT/parts"
