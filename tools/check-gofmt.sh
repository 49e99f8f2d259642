#!/bin/sh
# check-gofmt.sh: fails and names the files that gofmt would change. Generated files are held to it too.
bad=$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ -f "$f" ] && echo "$f"; done | xargs gofmt -l) || exit 1
[ -z "$bad" ] && exit 0
echo "gofmt would change these files (run gofmt -w on them):" >&2
echo "$bad" >&2
exit 1
