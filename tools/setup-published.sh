#!/bin/sh
# setup-published.sh [VENV]: the published Python client gpuemu 0.1.0, which the tests of protocol v1 run against our daemon.
exec sh "$(dirname "$0")/setup-venv.sh" "${1:-.cache/published-venv}" gpuemu,numpy,pynng gpuemu==0.1.0 numpy==2.4.6 pynng==0.9.0
