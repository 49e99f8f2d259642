#!/bin/sh
# amd64v3.sh: the tests of all packages that compute once more with GOAMD64=v3, then the whole catalogue byte for byte
# against GOAMD64=v1: the inputs of some cases of every operator, and the oracle's values and bounds on them. Of the
# oracle's own tests it runs those that hold bits. The others ask what values and bounds are good for, and the same bits
# are as good.
# Where the machine cannot run v3 code the comparison cannot be made; the script says so and counts as passed.
set -eu
go=${GO:-go}
cases=${CASES:-8}
if [ "$("$go" env GOARCH)" != amd64 ]; then
	echo "skipped: GOAMD64 is for amd64, this is $("$go" env GOARCH)"
	exit 0
fi
for flag in avx2 bmi1 bmi2 f16c fma movbe; do
	if ! grep -qw "$flag" /proc/cpuinfo 2>/dev/null; then
		echo "skipped: this CPU has no $flag, which GOAMD64=v3 needs"
		exit 0
	fi
done
# shellcheck disable=SC2046 # one word per package
GOAMD64=v3 "$go" test -short -timeout 15m $("$go" list ./internal/... |
	grep -E '/(dtype|libm|rng|tensor|gemm|opspec|compare|gen|invariant|shrink)$')
GOAMD64=v3 "$go" test -short -timeout 15m -run 'Frozen|Bulk|Extent|Runs|Num|AnyCores|WantKeepsItsDigits' ./internal/oracle

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GPUEMU_LOG_LEVEL=warn
for level in v1 v3; do
	gpuemu=$dir/gpuemu-$level
	GOAMD64=$level CGO_ENABLED=0 "$go" build -o "$gpuemu" ./cmd/gpuemu
	mkdir "$dir/$level"
	for op in $("$gpuemu" ops | awk '{print $1}'); do
		"$gpuemu" cases --op "$op" --seed 1 --count "$cases" -o "$dir/$level/$op"
		for file in "$dir/$level/$op"/*.safetensors; do
			"$gpuemu" oracle "$op" --inputs "$file" -o "$file.want"
		done
	done
done
count=$(find "$dir/v1" -name '*.want' | wc -l)
if [ "$count" -eq 0 ]; then
	echo "no case was compared" >&2
	exit 1
fi
diff -r "$dir/v1" "$dir/v3"
echo "$count cases have the same inputs, values and bounds under GOAMD64=v1 and v3"
