#!/bin/sh
# setup-python.sh: makes .cache/venv, the interpreter of the tests that run Python candidates. It has numpy and ml_dtypes
# and nothing of ours. A venv with the right packages is left as it is, so this needs a network once.
set -eu
venv=${1:-.cache/venv}
packages="numpy==2.4.6 ml_dtypes==0.5.4"
if [ "$(cat "$venv/installed.txt" 2>/dev/null)" = "$packages" ] && "$venv/bin/python" -c "import numpy, ml_dtypes"; then
	exit 0
fi
python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
	echo "the tests of Python candidates need python3 with venv: install it or set PYTHON" >&2
	exit 1
}
rm -rf "$venv"
"$python" -m venv "$venv"
# shellcheck disable=SC2086 # one word per package
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages
echo "$packages" >"$venv/installed.txt"
