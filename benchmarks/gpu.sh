#!/bin/sh
# Measures the engine on this machine's GPU, unattended: a virtual environment, the package, then benchmarks/gpu.py.
#
#     sh benchmarks/gpu.sh [--quick] …      (what follows goes to gpu.py)
#
# Needs python3 (3.11 or later) and a driver. torch comes from the Python index, whose Linux builds are for CUDA; where
# python3 has one already that sees the GPU, that one is used. PYTHON and VENV choose others.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-build/venv-gpu}

mkdir -p build
if [ ! -x "$VENV/bin/python" ]; then
    if "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        "$PYTHON" -m venv --system-site-packages "$VENV"
    else
        "$PYTHON" -m venv "$VENV"
    fi
fi
# constraints.txt is left aside: its torch may be one without CUDA.
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable .
exec timeout 540 "$VENV/bin/python" benchmarks/gpu.py "$@"
