"""Our own int8 kernels: `kernels.cpp`, compiled once by the machine's C++ compiler and called through ctypes.

They are optional. Without a compiler `load()` returns None, `problem()` says why, and torch's kernels serve.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import threading
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path

from . import places
from .compiling import Compilation

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
ENDED = ".ended"  # beside the library that a process was making when it ended
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
        *((name, c_void_p) for name in ("embedding", "norm", "cos", "sin")),
        *((name, c_int32) for name in ("layer_count", "hidden", "heads", "kv_heads", "head_dim", "inner")),
        *((name, c_int32) for name in ("page_size", "kv_bfloat16")),
        *((name, c_int64) for name in ("vocabulary", "positions", "slots")),
        *((name, c_float) for name in ("epsilon", "scaling")),
    ]


class Batch(Structure):
    """`struct Batch` of kernels_model.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("ids", "positions", "slots", "lengths", "page_table", "outputs", "logits")),
        *((name, c_int32) for name in ("rows", "pages", "output_count")),
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
        self.look = library.cutaway_look  # `Look`s, laid out as survey_native.py says
        self.look.argtypes = [c_void_p, c_int, c_int]
        self.look.restype = None
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


class _Kept:
    """What this process has of the kernels: the library, or why there is none, or what is making it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.library: Library | None = None
        self.problem = ""
        self.compilation: Compilation | None = None


_kept = _Kept()


def problem() -> str:
    """Why `load()` returned None, in one sentence; empty if it did not."""
    return _kept.problem


def load() -> Library | None:
    """The kernels, compiled into the cache on first use (some seconds); None where that can't be done."""
    compilation = begin(gently=False)
    if compilation is not None:
        compilation.wait()
    return at_hand()


def begin(gently: bool = True) -> Compilation | None:
    """Have the kernels compiled beside everything else, where that is still to be done and can be.

    Returns what is under way; None where there is nothing to wait for. What failed is not tried again.
    """
    with _kept.lock:
        if at_hand() is None and _kept.compilation is None and not _kept.problem:
            try:
                compiler = find_compiler()
                _kept.compilation = _compile(place(cache_folder(), compiler), compiler, gently)
            except (OSError, LookupError) as error:
                _kept.problem = str(error)
        return _kept.compilation


def at_hand() -> Library | None:
    """The kernels where they are compiled already; never waits for a compiler."""
    with _kept.lock:
        compilation = _kept.compilation
        if _kept.library is not None or _kept.problem or (compilation is not None and not compilation.over):
            return _kept.library
        _kept.compilation = None
        try:
            path = target()
            if compilation is not None and not compilation.ended:
                with contextlib.suppress(OSError):
                    path.with_suffix(ENDED).unlink(missing_ok=True)
            if compilation is not None and compilation.problem:
                raise subprocess.SubprocessError(_failed(find_compiler(), compilation.problem))
            if path.exists():
                _kept.library = Library(path)
        except (OSError, subprocess.SubprocessError, LookupError) as error:
            _kept.problem = str(error).strip() or type(error).__name__
        return _kept.library


def under_way() -> Compilation | None:
    """The compilation that has not ended yet."""
    with _kept.lock:
        at_hand()
        return _kept.compilation


def expected() -> bool:
    """Whether the kernels are compiled, or being compiled."""
    with _kept.lock:
        return at_hand() is not None or _kept.compilation is not None


def target() -> Path:
    """The library's file, compiled or not. Raises `LookupError` without a compiler."""
    return _kept.library.path if _kept.library is not None else place(cache_folder(), find_compiler())


def end() -> None:
    """End the compilation under way, if there is one; the next process then has it done before anything else."""
    compilation = _kept.compilation
    if compilation is not None and not compilation.over:
        with contextlib.suppress(OSError):
            compilation.target.with_suffix(ENDED).touch()
        compilation.end()


def ended_early() -> bool:
    """Whether the last process that compiled ended before the compiler did."""
    with contextlib.suppress(LookupError, OSError):
        return target().with_suffix(ENDED).exists()
    return False


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return places.cache() / "kernels"


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
    made = place(folder, compiler)
    if not made.exists():
        compilation = _compile(made, compiler, gently=False)
        compilation.wait()
        if compilation.problem:
            raise subprocess.SubprocessError(_failed(compiler, compilation.problem))
    return made


def _compile(made: Path, compiler: str, gently: bool) -> Compilation:
    def commands(output: Path) -> list[list[str]]:
        return [[compiler, *FLAGS, *native, "-o", str(output), str(SOURCES[0])] for native in NATIVE]

    return Compilation(made, commands, gently=gently)


def _failed(compiler: str, said: str) -> str:
    return f"{compiler} can't compile {SOURCES[0].name}: {said}"


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
