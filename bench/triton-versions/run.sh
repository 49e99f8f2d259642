#!/bin/sh
# run.sh DIR VERSION...: compiles the kernels of this folder by these versions of Triton into DIR. Each version has an
# environment of its own, .cache/triton-versions/VERSION, which needs a network once. TRITON_VENVS names a folder that
# has them already, called tVERSION; nothing is installed then.
set -eu
dir=$1
shift
for version in "$@"; do
	if [ -n "${TRITON_VENVS:-}" ]; then
		venv=$TRITON_VENVS/t$version
	else
		venv=.cache/triton-versions/$version
		sh tools/step.sh "python with Triton $version" sh tools/setup-venv.sh "$venv" triton,numpy,setuptools \
			"triton==$version" numpy==2.4.6 setuptools==65.5.0
	fi
	"$venv/bin/python" -W ignore bench/triton-versions/build.py "$dir"
done
