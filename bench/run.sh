#!/bin/sh
# run.sh [speed|engine] [FLAGS]: one table with flags, or both without any. Flags alone are those of the speed table.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
"") sh bench/speed/run.sh && exec sh bench/engine/run.sh ;;
speed | engine) table=$1 && shift && exec sh "bench/$table/run.sh" "$@" ;;
*) exec sh bench/speed/run.sh "$@" ;;
esac
