#!/bin/sh
# fuzz.sh TIME: runs every fuzz target of the module for TIME each. Targets are found, not listed, so none is forgotten.
set -u
time=${1:?usage: fuzz.sh TIME}
go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
count=0
failed=0
for package in $("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
	targets=$("$go" test -list '^Fuzz' "$package" | grep '^Fuzz')
	for target in $targets; do
		count=$((count + 1))
		for try in 1 2; do
			# By default the engine takes up to a minute to shorten each input that is new to it; a short run would do
			# nothing else.
			"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "$package" >"$log" 2>&1
			rc=$?
			[ $rc -eq 0 ] && break
			# The fuzzing engine itself sometimes reports its own deadline as a failure of the target
			# (golang.org/issue/56238). That has no failing input; a real find has one and is never retried.
			grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log" || break
		done
		if [ $rc -eq 0 ]; then
			echo "ok   $package $target $(sed -n 's/.*\(execs: [0-9]*\).*/\1/p' "$log" | tail -n 1)"
		else
			failed=$((failed + 1))
			cat "$log" >&2
			echo "FAIL $package $target" >&2
		fi
	done
done
if [ $count -eq 0 ]; then
	echo "fuzz.sh found no fuzz target: the module has some, so the search is broken" >&2
	exit 1
fi
echo "$count fuzz targets, $failed failed"
[ $failed -eq 0 ]
