#!/bin/sh
# Measures the engine on this machine's GPU, unattended and in under ten minutes: benchmarks/gpu.py with what it needs.
#
#     sh benchmarks/gpu.sh [--quick] …      (what follows goes to gpu.py)
#
# Needs python3 (3.11 or later) and a driver. Where python3 has a torch that sees the GPU, that python3 is used as it is,
# and only modules that it lacks are fetched, into a folder beside; so it also runs without a network, from wheels in
# WHEELS (build/wheels). Otherwise a virtual environment is made with torch from the Python index, whose Linux builds are
# for CUDA. PYTHON and VENV choose others.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-build/venv-gpu}
WHEELS=${WHEELS:-build/wheels}
SITE=build/site-gpu
NEEDED="transformers tokenizers safetensors numpy filelock jinja2 msgspec platformdirs psutil"

if "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    mkdir -p "$SITE/cutaway"
    ln -sfn "$PWD/engine" "$SITE/cutaway/engine"
    export PYTHONPATH="$PWD/$SITE"
    missing=$("$PYTHON" -c '
import importlib.util, sys
print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))' $NEEDED)
    if [ -n "$missing" ]; then
        from=""
        if [ -d "$WHEELS" ]; then from="--no-index --find-links $WHEELS"; fi
        # Without what they need in turn, or pip would bring another torch.
        "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$SITE" $from $missing
    fi
else
    mkdir -p build
    if [ ! -x "$VENV/bin/python" ]; then "$PYTHON" -m venv "$VENV"; fi
    PYTHON="$VENV/bin/python"
    # constraints.txt is left aside: its torch may be one without CUDA.
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --editable .
fi
exec timeout "${SECONDS_AT_MOST:-540}" "$PYTHON" -u benchmarks/gpu.py "$@"
