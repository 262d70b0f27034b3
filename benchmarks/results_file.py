"""`benchmarks/RESULTS.md`: each program that measures owns one section of it and leaves the others alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

FILE = Path(__file__).with_name("RESULTS.md")


def replace_section(name: str, text: str, file: Path | None = None) -> None:
    """Put `text` in place of the section called `name`, or at the end if there is none, in one step."""
    file = file or FILE
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    whole = file.read_text(encoding="utf-8") if file.exists() else "# Results\n"
    section = f"{begin}\n{text.strip()}\n{end}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    known = pattern.search(whole) is not None
    whole = pattern.sub(lambda _: section, whole) if known else f"{whole.rstrip()}\n\n{section}\n"
    made = file.with_suffix(".new")
    made.write_text(whole, encoding="utf-8")
    made.replace(file)


def machine() -> str:
    """The processor and how much of it there is, without anything that names this machine."""
    model = "unknown processor"
    flags: set[str] = set()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
            elif key.strip() == "flags":
                flags = set(value.split())
    except OSError:
        pass
    known = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile") if flag in flags]
    return f"{model}, {os.cpu_count()} virtual processors ({', '.join(known)})"
