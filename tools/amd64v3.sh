#!/bin/sh
# amd64v3.sh: all tests once more with GOAMD64=v3, and the whole catalogue byte for byte against GOAMD64=v1.
# Where the machine cannot run v3 code, the comparison cannot be made; the script says so and counts as passed.
set -eu
go=${GO:-go}
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
GOAMD64=v3 "$go" test -short -timeout 15m ./...
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for level in v1 v3; do
	GOAMD64=$level CGO_ENABLED=0 "$go" build -o "$dir/gpuemu-$level" ./cmd/gpuemu
	"$dir/gpuemu-$level" ops --format names >"$dir/ops"
	mkdir "$dir/$level"
	while read -r op; do
		"$dir/gpuemu-$level" cases --op "$op" --seed 1 --count 6 -o "$dir/$level/$op" >/dev/null 2>&1 ||
			{ echo "gpuemu-$level cases --op $op failed" >&2; exit 1; }
	done <"$dir/ops"
done
diff -r "$dir/v1" "$dir/v3"
