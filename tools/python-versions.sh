#!/bin/sh
# python-versions.sh RECORD PYTHON:NUMPY[:PACKAGE…]…: runs the tests of the Python package with each of these, and writes
# the table. A version that no interpreter can be had of is a row that says so; a test that fails fails the whole.
# TESTS names the tests, FLAGS flags of pytest.
set -eu
record=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tests=${TESTS:-python/tests}
rows=.cache/python-versions.txt
: >"$rows"
status=0
for row in "$@"; do
	version=${row%%:*} rest=${row#*:}
	numpy=${rest%%:*}
	packages=$(echo "$rest" | cut -s -d: -f2- | tr : ' ')
	if ! python=$(sh tools/get-python.sh "$version"); then
		echo "| $version | $numpy | – | – | – | no interpreter: neither PATH, pyenv, uv nor a module has one |" >>"$rows"
		continue
	fi
	venv=.cache/python-versions/$version-$numpy
	if [ "$(cat "$venv/installed.txt" 2>/dev/null)" != "$rest" ]; then
		rm -rf "$venv"
		.cache/uv-venv/bin/uv venv --quiet --python "$python" "$venv"
		# shellcheck disable=SC2086 # one word per package
		.cache/uv-venv/bin/uv pip install --quiet --python "$venv/bin/python" "numpy==$numpy" $packages
		echo "$rest" >"$venv/installed.txt"
	fi
	full=$("$venv/bin/python" -c "import platform; print(platform.python_version())")
	# shellcheck disable=SC2086 # one word per flag and test
	if said=$("$venv/bin/python" -m pytest -q ${FLAGS:-} $tests 2>&1); then note=""; else note="fails" status=1; fi
	last=$(printf '%s\n' "$said" | tail -1)
	count() { printf '%s\n' "$last" | sed -n "s/.*[^0-9]\([0-9][0-9]*\) $1.*/\1/p; s/^\([0-9][0-9]*\) $1.*/\1/p" | head -1; }
	passed=$(count passed) failed=$(count failed) skipped=$(count skipped)
	echo "| $full | $numpy | ${passed:-0} | ${failed:-0} | ${skipped:-0} | $note |" >>"$rows"
	echo "Python $full, numpy $numpy: $last"
	[ -z "$note" ] || printf '%s\n' "$said" | grep -E '^(FAILED|ERROR|E  )' | head -40
done
{
	echo "# Python versions"
	echo
	echo "The tests of the Python package that need no framework, by version of Python and of NumPy:"
	echo "\`make python-versions\`. What is skipped needs a framework or a package that the environment has not."
	echo
	echo "| Python | NumPy | passed | failed | skipped | |"
	echo "|---|---|---|---|---|---|"
	cat "$rows"
} >"$record"
exit $status
