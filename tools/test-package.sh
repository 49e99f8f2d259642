#!/bin/sh
# test-package.sh: installs the Python packages as a user would, `pip install .` into an empty environment, and runs the
# quick starts of their READMEs with what was installed: nothing of this checkout is on any path.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
export GPUEMU_HOME="$work/home"
export GPUEMU_SEED=1 # no outcome depends on the draw of a day
trap '"$work/venv/bin/gpuemu" daemon stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
unset PYTHONPATH GPUEMU_BINARY GPU_PROOF_BINARY GPUEMU_SOCKET GPUEMU_CONFIG
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$root/python" "$root/python/pytest-gpu-proof"
# The scripts on PATH are the binaries themselves: they start without Python.
for name in gpuemu gpu-proof; do
	case $(head -c 4 "$work/venv/bin/$name" | od -An -c | tr -d ' ') in
	"#!"*) echo "$name on PATH is a Python script, not the binary" >&2 && exit 1 ;;
	esac
done
# A wheel without binaries works with the one on PATH.
GPUEMU_PURE_WHEEL=1 "$work/venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
	--wheel-dir "$work/pure" "$root/python"
"${PYTHON:-python3}" -m venv "$work/pure-venv"
"$work/pure-venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy "$work"/pure/gpuemu-*-none-any.whl
test ! -e "$work/pure-venv/bin/gpuemu"
cd "$work"
PATH=$work/venv/bin:$PATH "$work/pure-venv/bin/python" -c "import gpuemu; print('pure wheel:', gpuemu.Client().ping())"
PATH=$work/venv/bin:$PATH "$work/venv/bin/python" "$root/tools/test_package.py" "$root"
mkdir "$work/project" "$work/user"
cd "$work/project"
HOME=$work/user PATH=$work/venv/bin:$PATH "$work/venv/bin/python" "$root/tools/test_receipts.py" "$root"
