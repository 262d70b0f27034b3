"""What this machine has, for the model picker and `cutaway doctor`. Nothing in it names a person or a host.

What only torch knows is asked of torch inside `report`, which the engine process calls; the rest imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

from . import faults, kernels
from .models.memory import auto_precision
from .protocol import AnyEvent, Failed, Machine
from .threads import usable_cores

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "gguf", "numpy", "textual")
logger = logging.getLogger(__name__)

_SETS = (  # the processor's own words -> ours, the best first; what our kernels choose among
    ("avx512_vnni", "AVX512-VNNI"),
    ("avx_vnni", "AVX-VNNI"),
    ("avx512bw", "AVX512"),
    ("avx2", "AVX2"),
    ("i8mm", "NEON i8mm"),
    ("asimddp", "NEON dotprod"),
    ("asimd", "NEON"),
)


def available_bytes() -> int:
    """Memory that a program can still take here."""
    return psutil.virtual_memory().available


def room() -> tuple[str, int]:
    """The device that "auto" will choose and the bytes that are free on it, told without torch."""
    if not _version("torch").endswith("+cpu") and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "--id=0"]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
            told = subprocess.run(query, capture_output=True, text=True, timeout=5, check=True)
            return "cuda:0", int(told.stdout.split()[0]) * 2**20
    return "cpu", available_bytes()


def expected_precision(device: str) -> str:
    """What "auto" will choose on this device, told without torch.

    Our kernels count as there if they were compiled before, or if there is a compiler to do it.
    """
    return auto_precision(device, kernels_expected())


def kernels_expected() -> bool:
    """Whether our kernels are compiled, or can be."""
    with contextlib.suppress(OSError):
        if any(kernels.cache_folder().glob("kernels-*.so")):
            return True
    with contextlib.suppress(LookupError):
        return bool(kernels.find_compiler())
    return False


def report() -> Machine:
    """Everything, torch's part too: imports torch, and compiles our kernels where nobody is at it yet."""
    memory = psutil.virtual_memory()
    compiling = kernels.under_way() is not None
    library = None if compiling else kernels.load()
    device, name, total, free, problem = _accelerator()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor_name(),
        cores=usable_cores(),
        hardware_threads=os.cpu_count() or 0,
        instructions=instructions(),
        memory_bytes=memory.total,
        available_bytes=memory.available,
        device=device,
        device_name=name,
        device_bytes=total,
        device_free_bytes=free,
        device_problem=problem,
        precision=auto_precision(device, compiling or library is not None),
        kernels=library.name if library is not None else "",
        kernels_problem="they are being compiled" if compiling else kernels.problem(),
        compiler=compiler(),
        versions=versions(),
    )


def tell(send: Callable[[AnyEvent], None]) -> None:
    """Send `report()` when it is made, or why it can't be; from a thread, since it may take seconds."""

    def work() -> None:
        try:
            send(report())
        except Exception as error:
            logger.exception("while looking at the machine")
            told = faults.as_error(error, "looking at the machine")
            send(Failed(told.message, told.action, told.kind, detail=faults.details(error)))

    threading.Thread(target=work, name="machine", daemon=True).start()


def processor_name() -> str:
    """The maker's name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Hardware", "Model"):
                return " ".join(value.split())
    if platform.system() == "Darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(
                ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=5, check=False
            )
            return told.stdout.strip()
    return platform.processor() or platform.machine()


def instructions() -> str:
    """The best of the instruction sets that our kernels know; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                has = set(value.split())
                return next((name for flag, name in _SETS if flag in has), "")
    return "NEON" if platform.machine() == "arm64" else ""


def compiler() -> str:
    """The C++ compiler and its version; empty where there is none."""
    try:
        found = kernels.find_compiler()
        told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (LookupError, OSError, subprocess.SubprocessError):
        return ""
    return (told.stdout.strip().splitlines() or [Path(found).name])[0][:80]


def versions() -> dict[str, str]:
    """Of this program, Python and the libraries that compute or draw."""
    found = {"cutaway": _version("cutaway"), "python": platform.python_version()}
    return found | {name: version for name in LIBRARIES if (version := _version(name))}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _accelerator() -> tuple[str, str, int, int, str]:
    """Device, its name, its memory, what is free of it, and why there is no better one."""
    import torch

    if torch.cuda.is_available():
        try:
            free, total = torch.cuda.mem_get_info(0)
            return "cuda:0", torch.cuda.get_device_name(0), total, free, ""
        except RuntimeError as error:
            return "cpu", "", 0, 0, f"CUDA can't be used: {str(error).splitlines()[0]}"
    if shutil.which("nvidia-smi"):
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        return "cpu", "", 0, 0, f"there is an NVIDIA driver, but torch {torch.__version__} ({built}) can't use it"
    return "cpu", "", 0, 0, ""
