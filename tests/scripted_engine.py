"""The engine process with the scripted core in it: `python tests/scripted_engine.py` instead of `cutaway engine`."""

from __future__ import annotations

import sys
from pathlib import Path

from cutaway.engine import worker
from scripted_core import build

COMMAND = [sys.executable, str(Path(__file__).resolve())]

if __name__ == "__main__":
    sys.exit(worker.main(build=build))
