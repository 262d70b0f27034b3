"""The engine process with the scripted core in it: `python tests/scripted_engine.py` instead of `cutaway engine`."""

from __future__ import annotations

import sys
from pathlib import Path

COMMAND = [sys.executable, str(Path(__file__).resolve())]

if __name__ == "__main__":
    from cutaway.engine import worker
    from scripted_core import build  # beside this file, which is run by its path from any folder

    sys.exit(worker.main(build=build))
