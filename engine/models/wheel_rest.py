"""The process that fetches the rest of a file: `python -m cutaway.engine.models.wheel_rest URL FILE SIZE`.

It appends to FILE what URL has behind FILE's end, until FILE has SIZE bytes. Exit status: 0 then, UNFIT where what is
there can't be continued, 1 where the connection failed. Proxies come from the environment, certificates from where pip
looks for them, too.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

UNFIT = 3
CHUNK = 1 << 16
PATIENCE_S = 60.0  # without a byte


def fetch(url: str, path: Path, size: int) -> None:
    """Complete the file at `path`. Raises `OSError` (as `urllib` does), and `ValueError` for an unfitting answer."""
    begun = path.stat().st_size
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-", "Accept-Encoding": "identity"})
    bundle = next((os.environ[name] for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE") if os.environ.get(name)), None)
    context = ssl.create_default_context(cafile=bundle)
    with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as reply, path.open("ab") as file:
        given = reply.headers.get("Content-Range", "")
        if reply.status != 206 or given != f"bytes {begun}-{size - 1}/{size}":
            raise ValueError(f"asked for the bytes from {begun} of {size}, and got {reply.status} {given}")
        while chunk := reply.read(CHUNK):
            file.write(chunk)
            file.flush()
    if path.stat().st_size != size:
        raise ValueError(f"{path.stat().st_size} bytes came of {size}")


if __name__ == "__main__":
    try:
        fetch(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    except (urllib.error.HTTPError, ValueError):
        sys.exit(UNFIT)
    except OSError:
        sys.exit(1)
