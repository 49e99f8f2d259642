#!/bin/sh
# fuzz.sh TIME: runs every fuzz target of the module for TIME each, one worker per target and as many packages at a time
# as there are cores. Targets are found, not listed, so none is forgotten.
set -u
time=${1:?usage: fuzz.sh TIME}
GO=${GO:-go}
export GO
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Only packages that have a target are built: with the instrumentation each takes seconds to link.
"$GO" list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}} {{.}}{{"\n"}}{{end}}{{range .XTestGoFiles
	}}{{$p.ImportPath}} {{$p.Dir}} {{.}}{{"\n"}}{{end}}' ./... | while read -r package dir file; do
	grep -q '^func Fuzz' "$dir/$file" 2>/dev/null && echo "$package $dir"
done | uniq >"$work/packages"
if [ ! -s "$work/packages" ]; then
	echo "fuzz.sh found no fuzz target: the module has some, so the search is broken" >&2
	exit 1
fi
xargs -n 2 -P "$(getconf _NPROCESSORS_ONLN)" sh tools/fuzz-package.sh "$time" "$work" <"$work/packages" >"$work/results"
rc=$?
cat "$work/results"
failed=$(grep -c '^FAIL' "$work/results")
found=$(grep -c '^ok\|^FAIL' "$work/results")
want=$(cut -d ' ' -f 2 "$work/packages" | while read -r dir; do cat "$dir"/*_test.go; done | grep -c '^func Fuzz')
echo "$found fuzz targets, $failed failed"
if [ "$found" -ne "$want" ]; then
	echo "fuzz.sh ran $found targets, the sources have $want" >&2
	exit 1
fi
[ "$failed" -eq 0 ] && [ $rc -eq 0 ]
