#!/bin/sh
# setup-original.sh [VENV]: pytest-gpu-proof 0.1.0 as published, which a test has verify the receipts that we write as schema 1.
exec sh "$(dirname "$0")/setup-venv.sh" "${1:-.cache/original-venv}" pytest_gpu_proof,cryptography pytest-gpu-proof==0.1.0 \
	pytest==9.2.0 cryptography==46.0.3
