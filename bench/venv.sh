#!/bin/sh
# venv.sh: makes .cache/bench-venv, the interpreter with numpy that the benches compare with. One that has the right
# packages is left as it is. It is run in the root of the repository.
set -eu
venv=$PWD/.cache/bench-venv
wanted=bench/speed/requirements.txt
if cmp -s "$wanted" "$venv/installed.txt"; then
	exit 0
fi
echo "setting up $(cat "$wanted") in .cache/bench-venv" >&2
rm -rf "$venv"
python3 -m venv "$venv" || {
	echo "venv.sh: python3 cannot make a virtual environment; install python3 (3.11 or later) with its venv module" >&2
	exit 2
}
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$venv/installed.txt"
