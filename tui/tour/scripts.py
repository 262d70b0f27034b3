"""Finds chapters and the scripts beside them: ours in `chapters/`, the reader's own in the configuration folder."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import sys
from importlib import resources
from pathlib import Path
from typing import cast

from .chapter import Chapter, Script, read_chapter
from .errors import ChapterError


@dataclasses.dataclass(frozen=True, slots=True)
class Play:
    """A chapter with its script."""

    chapter: Chapter
    run: Script


def load_chapters(user_folder: Path | None = None) -> tuple[list[Play], list[str]]:
    """Every chapter in order, and a sentence for each of the reader's own that can't be used.

    `NAME.toml` and `NAME.py` in `user_folder` make a chapter; one with a name of ours replaces it.
    """
    plays = {play.chapter.name: play for play in _ours()}
    problems: list[str] = []
    files = sorted(user_folder.glob("*.toml")) if user_folder is not None and user_folder.is_dir() else []
    for file in files:
        try:
            play = load_chapter(file)
        except ChapterError as error:
            problems.append(str(error))
        else:
            plays[play.chapter.name] = play
    return sorted(plays.values(), key=lambda play: (play.chapter.number, play.chapter.name)), problems


def load_chapter(file: Path) -> Play:
    """The chapter in a TOML file and the script of the same name beside it. Raises `ChapterError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ChapterError(f"The chapter {file} can't be read: {error}.") from None
    chapter = read_chapter(file.stem, text, str(file))
    return Play(chapter, _script(file.with_suffix(".py")))


def _ours() -> list[Play]:
    folder = resources.files(f"{__package__}.chapters")
    plays: list[Play] = []
    for file in folder.iterdir():
        name, _, ending = file.name.rpartition(".")
        if ending == "toml":
            module = importlib.import_module(f".chapters.{name}", __package__)
            plays.append(Play(read_chapter(name, file.read_text(encoding="utf-8")), module.run))
    return plays


def _script(path: Path) -> Script:
    if not path.is_file():
        raise ChapterError(f"The chapter {path.with_suffix('.toml')} has no script.", f"Write {path.name} beside it.")
    # In the package of ours, so that `from ..figures import …` means the same in both.
    name = f"{__package__}.chapters.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ChapterError(f"The script {path} can't be imported.")
    module = importlib.util.module_from_spec(spec)
    known = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it is the reader's own code: it may fail in any way
        raise ChapterError(f"The script {path} failed: {type(error).__name__}: {error}.") from error
    finally:
        if known is not None:
            sys.modules[name] = known
        else:
            del sys.modules[name]
    run = getattr(module, "run", None)
    if not callable(run):
        raise ChapterError(f"The script {path} has no function run(stage, setting).")
    return cast(Script, run)
