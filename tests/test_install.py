"""The wheel, built and installed in an environment of its own, holds everything and answers from any folder.

The environment sees the libraries of the one that runs the tests, so that they need not be fetched again; cutaway
itself it has from the wheel alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from .patience import LONG
from .scenes import TRACES

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "tui", "themes")
LEFT_OUT = ("__pycache__",)


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy: building leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # Without isolation: setuptools is here, since torch needs it.
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", source / "dist", source)
    (made,) = (source / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", programs / "python", "install", *options, wheel)
    (libraries,) = folder.rglob("site-packages")
    # Last, or pip would take the cutaway that is installed there for this one. What is added in a .pth file has no
    # .pth files of its own, so an editable install of cutaway is not followed.
    theirs = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (libraries / "libraries.pth").write_text("\n".join(theirs) + "\n", "utf-8")
    return programs


def alone(home: Path) -> dict[str, str]:
    """An environment for programs that know nothing of this checkout; models and kernels are where they are."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HOME": str(home)}


def test_everything_that_is_in_the_checkout_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"cutaway/{file.relative_to(ROOT).as_posix()}"
        for name in PACKAGES
        for file in (ROOT / name).rglob("*")
        if file.is_file() and not set(file.parts) & set(LEFT_OUT)
    }
    assert wanted - inside == set()
    for needed in ("engine/kernels.cpp", "engine/kernels_int8.h", "engine/templates/chatml.jinja", "themes/dark.toml"):
        assert f"cutaway/{needed}" in inside
    assert not any(name.startswith(("tests/", "benchmarks/", "engine/", "tui/")) for name in inside)


def test_the_program_answers_from_any_folder(installed: Path, tmp_path: Path) -> None:
    env, program = alone(tmp_path), installed / "cutaway"
    assert run(program, "--version", cwd=tmp_path, env=env).split()[0] == "cutaway"
    assert "Where things are kept" in run(program, "--help", cwd=tmp_path, env=env)
    assert "_CUTAWAY_COMPLETE" in run(program, "completion", "zsh", cwd=tmp_path, env=env)
    assert "Qwen/Qwen3-0.6B" in run(program, "models", "list", "--all", cwd=tmp_path, env=env)
    assert "sky" in run(program, "replay", "--instant", TRACES / "streamed.trace", cwd=tmp_path, env=env)
    where = "import cutaway.engine, cutaway.tui.looks as l; print(cutaway.engine.__file__, *l.load_themes()[0])"
    file, *themes = run(installed / "python", "-c", where, cwd=tmp_path, env=env).split()
    assert Path(file).is_relative_to(installed.parent)
    assert "cutaway-dark" in themes


@pytest.mark.model
def test_the_installed_program_gives_a_reply_of_the_real_model(installed: Path, tmp_path: Path) -> None:
    from cutaway.engine import places

    env = {**alone(tmp_path), "CUTAWAY_CACHE_DIR": str(places.cache())}
    reply = run(installed / "cutaway", "ask", "--temperature", "0", "--max-tokens", "8", "Hi!", cwd=tmp_path, env=env)
    assert reply.strip()
