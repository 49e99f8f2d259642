#!/bin/sh
# run.sh [speed|engine|artifacts|emulator|receipts|python] [FLAGS]: one table with flags, or all without any. Flags alone
# are those of the speed table. Each table sets up what it needs.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
"") for table in speed engine artifacts emulator receipts python; do sh "bench/$table/run.sh"; done ;;
speed | engine | artifacts | emulator | receipts | python) table=$1 && shift && exec sh "bench/$table/run.sh" "$@" ;;
*) exec sh bench/speed/run.sh "$@" ;;
esac
