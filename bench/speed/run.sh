#!/bin/sh
# run.sh [FLAGS]: the speed table against numpy. Sets up numpy once, in .cache, and passes the flags on (-h lists them).
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
venv=$root/.cache/bench-venv
wanted=bench/speed/requirements.txt

if ! cmp -s "$wanted" "$venv/installed.txt"; then
	echo "setting up $(cat "$wanted") in .cache/bench-venv" >&2
	rm -rf "$venv"
	python3 -m venv "$venv" || {
		echo "run.sh: python3 cannot make a virtual environment; install python3 (3.11 or later) with its venv module" >&2
		exit 2
	}
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
	cp "$wanted" "$venv/installed.txt"
fi

# Built, not run by "go run": the compiler must not be at work while something is timed.
mkdir -p .cache/bench
${GO:-go} build -o .cache/bench/speed ./bench/speed
exec .cache/bench/speed -python "$venv/bin/python" -o .cache/bench/speed.md "$@"
