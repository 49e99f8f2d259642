#!/bin/sh
# fuzz-package.sh TIME WORK PACKAGE DIR: builds the tests of a package once and runs each of its fuzz targets for TIME
# with one worker. WORK is a directory for what it needs. One line per target, "ok" or "FAIL"; logs of failures on stderr.
set -u
time=$1 package=$3 dir=$4
binary=$2/$(echo "$package" | tr / _)
log=$binary.log
# Inputs that earlier runs found are where go test -fuzz keeps them.
cache=$("$GO" env GOCACHE)/fuzz/$package
cd "$dir" || exit 1
if ! "$GO" test -c -fuzz=. -o "$binary" . >"$log" 2>&1 || ! targets=$("$binary" -test.list '^Fuzz' 2>>"$log"); then
	cat "$log" >&2
	echo "FAIL $package: no test binary"
	exit 1
fi
for target in $targets; do
	for try in 1 2; do
		# By default the engine takes up to a minute to shorten each input that is new to it; a short run would do
		# nothing else.
		"$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 100x \
			-test.parallel 1 -test.fuzzcachedir "$cache" >"$log" 2>&1
		rc=$?
		[ $rc -eq 0 ] && break
		# The fuzzing engine itself sometimes reports its own deadline as a failure of the target
		# (golang.org/issue/56238). That has no failing input; a real find has one and is never retried.
		grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log" || break
	done
	if [ $rc -eq 0 ]; then
		echo "ok   $package $target $(sed -n 's/.*\(execs: [0-9]*\).*/\1/p' "$log" | tail -n 1)"
	else
		cat "$log" >&2
		echo "FAIL $package $target"
	fi
done
rm -f "$binary"
