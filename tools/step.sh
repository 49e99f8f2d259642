#!/bin/sh
# step.sh NAME COMMAND...: runs the command and says what it was and how long it took.
name=$1
shift
start=$(date +%s)
"$@"
rc=$?
took=$(($(date +%s) - start))
if [ $rc -eq 0 ]; then
	echo "ok   $name (${took}s)"
else
	echo "FAIL $name (${took}s, exit $rc)" >&2
fi
exit $rc
