#!/bin/sh
# setup-python.sh [VENV]: the interpreter of the tests that run Python candidates. It has numpy and ml_dtypes and nothing of
# ours.
exec sh "$(dirname "$0")/setup-venv.sh" "${1:-.cache/venv}" numpy,ml_dtypes numpy==2.4.6 ml_dtypes==0.5.4
