#!/bin/sh
# get-python.sh VERSION: prints the path of an interpreter of this minor version ("3.12"): one of PATH or of pyenv, else
# one that uv installs, else one that a Go module carries, which needs the module proxy alone. Exit code 3: there is none.
set -eu
version=$1
root=$(cd "$(dirname "$0")/.." && pwd)
works() { "$1" -c "import sys, ssl, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" >/dev/null 2>&1; }

for found in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
	if [ -x "$found" ] && works "$found"; then
		echo "$found"
		exit 0
	fi
done

uv=$root/.cache/uv-venv/bin/uv
if UV_PYTHON_INSTALL_DIR=$root/.cache/uv-python "$uv" python install --quiet "$version" 2>/dev/null; then
	UV_PYTHON_INSTALL_DIR=$root/.cache/uv-python "$uv" python find --no-project --managed-python "$version"
	exit 0
fi

# The builds of python-build-standalone, as a Go module has them: each file packed by itself. Its checksum is pinned.
case $version in
3.14) module=v0.0.0-3.14.6-20260610-1 sum=h1:oGUS7++Wm3LgxUfD6AmJgKbKQD2wdQFO9PzyJv6T+E4= ;;
*) exit 3 ;;
esac
[ "$(uname -sm)" = "Linux x86_64" ] || exit 3
place=$root/.cache/python-$version
if ! works "$place/bin/python$version"; then
	mkdir -p "$root/.cache/python-module"
	said=$(cd "$root/.cache/python-module" && go mod download -json "github.com/kluctl/go-embed-python@$module") || exit 3
	case $said in
	*"\"$sum\""*) ;;
	*)
		echo "get-python.sh: the module $module has another checksum than the pinned one" >&2
		exit 1
		;;
	esac
	folder=$(printf '%s\n' "$said" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	rm -rf "$place"
	cp -r "$folder/python/internal/data/linux-amd64" "$place"
	chmod -R u+w "$place"
	find "$place" -name '*.gz' -exec gunzip {} +
	chmod +x "$place"/bin/*
fi
works "$place/bin/python$version" || exit 3
echo "$place/bin/python$version"
