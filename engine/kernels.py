"""Our own int8 kernels: `kernels.cpp`, compiled once by the machine's C++ compiler and called through ctypes.

They are optional. Without a compiler `load()` returns None, `problem()` says why, and torch's kernels serve.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path

from . import places

NAMES = (
    "kernels.cpp",
    "kernels_attention.h",
    "kernels_int8.h",
    "kernels_lanes.h",
    "kernels_model.h",
    "kernels_step.h",
    "kernels_survey.h",
    "kernels_team.h",
)
SOURCES = tuple(Path(__file__).with_name(name) for name in NAMES)
FLAGS = ("-std=c++20", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-pthread")
NATIVE = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler takes


class Linear(Structure):
    """`struct Linear` of kernels_int8.h."""

    _fields_ = [("data", c_void_p), ("scales", c_void_p), ("bias", c_void_p), ("n", c_int32), ("k", c_int32)]


class Layer(Structure):
    """`struct Layer` of kernels_model.h."""

    _fields_ = [
        *((name, Linear) for name in ("q", "k", "v", "o", "gate", "up", "down")),
        *((name, c_void_p) for name in ("attention_norm", "mlp_norm", "q_norm", "k_norm", "keys", "values")),
        ("window", c_int64),
    ]


class Model(Structure):
    """`struct Model` of kernels_model.h."""

    _fields_ = [
        ("layers", POINTER(Layer)),
        ("head", Linear),
        *((name, c_void_p) for name in ("norm", "cos", "sin")),
        *((name, c_int32) for name in ("layer_count", "hidden", "heads", "kv_heads", "head_dim", "inner")),
        *((name, c_int32) for name in ("page_size", "kv_bfloat16")),
        *((name, c_int64) for name in ("positions", "slots")),
        *((name, c_float) for name in ("epsilon", "scaling")),
    ]


class Batch(Structure):
    """`struct Batch` of kernels_model.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("x", "positions", "slots", "lengths", "page_table", "outputs", "logits")),
        *((name, c_int32) for name in ("rows", "pages", "output_count")),
    ]


class Mass(Structure):
    """`struct Mass` of kernels_survey.h."""

    _fields_ = [
        ("x", c_void_p),
        ("n", c_int64),
        ("top", c_float),
        ("factor", c_float),
        ("total", c_double),
        ("weighted", c_double),
    ]


class Lead(Structure):
    """`struct Lead` of kernels_survey.h."""

    _fields_ = [
        ("x", c_void_p),
        ("n", c_int64),
        ("ids", c_void_p),
        ("count", c_int32),
        ("found", c_int32),
        ("top", c_float),
    ]


class Library:
    """The loaded kernels. `name` is what the model card shows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        library = ctypes.CDLL(str(path))
        self.step = library.cutaway_step
        self.step.argtypes = [POINTER(Model), POINTER(Batch), c_int]
        self.step.restype = c_int
        self.linear = library.cutaway_linear
        self.linear.argtypes = [POINTER(Linear), c_void_p, c_void_p, c_int64, c_int]
        self.linear.restype = None
        self.pack = library.cutaway_pack
        self.pack.argtypes = [POINTER(Linear), c_void_p, c_int]
        self.pack.restype = None
        self.lead = library.cutaway_lead
        self.lead.argtypes = [c_void_p, c_int, c_int]
        self.lead.restype = None
        self.weigh = library.cutaway_weigh
        self.weigh.argtypes = [c_void_p, c_int, c_int]
        self.weigh.restype = None
        self.use_plain = library.cutaway_plain
        self.use_plain.argtypes = [c_int]
        self.use_plain.restype = None
        self.settle = library.cutaway_settle
        self.settle.argtypes = []
        self.settle.restype = None
        self.stall = library.cutaway_stall
        self.stall.argtypes = [c_int]
        self.stall.restype = c_int64
        library.cutaway_instructions.restype = c_char_p
        self.name = f"cutaway int8 ({library.cutaway_instructions().decode()})"


_problem = ""


def problem() -> str:
    """Why `load()` returned None, in one sentence; empty if it did not."""
    return _problem


@functools.cache
def load() -> Library | None:
    """The kernels, compiled into the cache on first use (some seconds); None where that can't be done."""
    global _problem
    try:
        return Library(build(cache_folder()))
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        _problem = str(error).strip() or type(error).__name__
        return None


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return places.cache() / "kernels"


def uncompiled() -> bool:
    """Whether `load()` will have to compile, which takes some seconds."""
    with contextlib.suppress(OSError, LookupError):
        return not place(cache_folder(), find_compiler()).exists()
    return False


def place(folder: Path, compiler: str) -> Path:
    """Where in `folder` the library lies.

    The name is a hash of the source, the flags, the compiler and the processor, so that a cache shared by machines
    holds one file for each.
    """
    key = hashlib.sha256()
    texts = (source.read_text() for source in SOURCES)
    for part in (*texts, repr(FLAGS), compiler, processor()):
        key.update(hashlib.sha256(part.encode()).digest())
    return folder / f"kernels-{key.hexdigest()[:24]}.so"


def build(folder: Path) -> Path:
    """Compile `kernels.cpp` into `folder` unless it is there; returns the library's path.

    Raises `LookupError` without a compiler, `SubprocessError` where it fails, `OSError`
    where the folder can't be written.
    """
    compiler = find_compiler()
    target = place(folder, compiler)
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / target.name
        message = ""
        for native in NATIVE:
            command = [compiler, *FLAGS, *native, "-o", str(made), str(SOURCES[0])]
            result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if result.returncode == 0:
                made.replace(target)
                return target
            message = result.stderr.strip()[:500]
    raise subprocess.SubprocessError(f"{compiler} can't compile {SOURCES[0].name}: {message}")


def find_compiler() -> str:
    """Path of the C++ compiler: `CXX` if set, else the first of c++, g++, clang++. Raises `LookupError`."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise LookupError("no C++ compiler found: c++, g++ or clang++")


def processor() -> str:
    """What decides which instructions -march=native allows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "cpu family", "model\t", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))
