#!/bin/sh
# setup-published.sh: makes .cache/published-venv with the published Python client gpuemu 0.1.0, which the tests of protocol
# v1 run against our daemon. A venv with the right packages is left as it is, so this needs a network once.
set -eu
venv=${1:-.cache/published-venv}
packages="gpuemu==0.1.0 numpy==2.4.6 pynng==0.9.0"
if [ "$(cat "$venv/installed.txt" 2>/dev/null)" = "$packages" ] && "$venv/bin/python" -c "import gpuemu, numpy, pynng"; then
	exit 0
fi
python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
	echo "the tests of the published client need python3 with venv: install it or set PYTHON" >&2
	exit 1
}
rm -rf "$venv"
"$python" -m venv "$venv"
# shellcheck disable=SC2086 # one word per package
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages
echo "$packages" >"$venv/installed.txt"
