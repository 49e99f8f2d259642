#!/bin/sh
# require-go.sh: stops with one clear line where Go is missing or too old for go.mod.
go=${GO:-go}
want=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
if ! command -v "$go" >/dev/null 2>&1; then
	echo "gpuemu needs Go $want or newer, and there is no \"$go\" on PATH: install it from https://go.dev/dl/" >&2
	exit 1
fi
have=$("$go" env GOVERSION | sed -n 's/^go\([0-9]*\.[0-9]*\).*/\1/p')
# A development build names no number ("devel ..."): let the compiler decide.
[ -z "$have" ] && exit 0
if [ "${have%%.*}" -lt "${want%%.*}" ] || { [ "${have%%.*}" -eq "${want%%.*}" ] && [ "${have#*.}" -lt "${want#*.}" ]; }; then
	echo "gpuemu needs Go $want or newer, and \"$go\" is go$have: install a newer one from https://go.dev/dl/" >&2
	exit 1
fi
