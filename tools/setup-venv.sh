#!/bin/sh
# setup-venv.sh VENV MODULES PACKAGE...: makes a virtual environment with these packages. One that has them, and can import
# the comma-separated MODULES, is left as it is, so this needs a network once. PYTHON names another interpreter, VENV_FLAGS
# flags of venv.
set -eu
venv=$1 modules=$2
shift 2
if [ "$(cat "$venv/installed.txt" 2>/dev/null)" = "$*" ] && "$venv/bin/python" -c "import $modules" 2>/dev/null; then
	exit 0
fi
python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
	echo "the tests in Python need python3 with venv: install it or set PYTHON" >&2
	exit 1
}
rm -rf "$venv"
# shellcheck disable=SC2086 # one word per flag
"$python" -m venv ${VENV_FLAGS:-} "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
"$venv/bin/python" -c "import $modules"
echo "$*" >"$venv/installed.txt"
