"""Chapters as files: ours are whole, a reader's own is found and run, and one that can't be used is told in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cutaway.engine.client import EngineClient
from cutaway.engine.protocol import Load
from cutaway.tui.session import Session
from cutaway.tui.tour import check
from cutaway.tui.tour.chapter import read_chapter
from cutaway.tui.tour.errors import ChapterError
from cutaway.tui.tour.progress import OFFERED
from cutaway.tui.tour.scripts import load_chapters
from cutaway.tui.tour.summary import LINES

from .screen_engine import InProcessEngine
from .tour_run import touring

OURS, _ = load_chapters()
README = Path(__file__).parent.parent / "README.md"


def example(folder: Path) -> Path:
    """The README's chapter, written into a reader's folder."""
    section = README.read_text().split("### Write a chapter")[1].split("\n## ")[0]
    toml, script = (re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("toml", "python"))
    assert toml is not None
    assert script is not None
    folder.mkdir(exist_ok=True)
    (folder / "seed.toml").write_text(toml[1])
    (folder / "seed.py").write_text(script[1])
    return folder


def test_there_are_ten_chapters_in_order_and_each_line_of_the_summary_has_some() -> None:
    assert [play.chapter.number for play in OURS] == list(range(1, 11))
    assert {play.chapter.line for play in OURS} == set(LINES)


@pytest.mark.parametrize("play", OURS, ids=[play.chapter.name for play in OURS])
def test_every_chapter_compares_something_with_a_direction_and_names_its_source(play) -> None:
    chapter = play.chapter
    assert any(row.holds for row in chapter.rows)
    assert len(chapter.picks) == 3
    for fact, source in (("Orca", "Orca"), ("PagedAttention", "PagedAttention"), ("Sarathi", "Sarathi")):
        if fact in chapter.text:
            assert any(source in told for told in chapter.sources)
    assert max(len(setting.name) for setting in chapter.settings) <= 20


def test_the_offered_question_has_six_words() -> None:
    assert len(OFFERED.split()) == 6


def test_the_readme_s_chapter_comes_after_ours(tmp_path: Path) -> None:
    plays, problems = load_chapters(example(tmp_path / "tour"))
    assert problems == []
    assert [play.chapter.name for play in plays] == [*(play.chapter.name for play in OURS), "seed"]


@pytest.mark.model
async def test_the_readme_s_chapter_runs_on_the_real_engine_and_comes_out_as_told(tmp_path: Path) -> None:
    plays, _ = load_chapters(example(tmp_path / "tour"))
    async with check.staged(Session(EngineClient(), Load(pages=128)), OFFERED) as stage:
        same, other = [await stage.perform(plays[-1], key) for key in ("same", "other")]
    assert same.figures == {"equal": 16}
    assert plays[-1].chapter.broken(same.figures, other.figures) == []
    assert same.reply


async def test_a_reader_s_chapter_is_on_the_screen_and_can_be_run(tmp_path: Path) -> None:
    example(tmp_path / "tour")
    session = Session(InProcessEngine(), Load(model="scripted", pages=256))
    async with touring((120, 40), session=session, config_folder=tmp_path, chapter=11) as run:
        await run.shows("tour 11/11  The seed")
        await run.press("2")
        await run.run("same")
        await run.shows("✓ same seed")


def test_a_chapter_of_a_name_of_ours_replaces_it(tmp_path: Path) -> None:
    example(tmp_path)
    (tmp_path / "seed.toml").rename(tmp_path / "prefill.toml")
    (tmp_path / "seed.py").rename(tmp_path / "prefill.py")
    plays, _ = load_chapters(tmp_path)
    assert len(plays) == 10
    assert next(play for play in plays if play.chapter.name == "prefill").chapter.title == "The seed"


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("seed.toml", lambda text: "number = ", "is not TOML"),
        ("seed.toml", lambda text: text.replace("title =", "titel ="), "is not complete"),
        ("seed.toml", lambda text: text.replace('"They will", "They will not"', '"They will"'), "picks"),
        ("seed.toml", lambda text: text.replace('panels = ["tokens"]', 'panels = ["radar"]'), "panels"),
        ("seed.toml", lambda text: text.replace('"other"', '"same"'), "both settings have the same key"),
        ("seed.py", lambda text: "import nothing_of_this_name", "nothing_of_this_name"),
        ("seed.py", lambda text: "x = 1", "no function run"),
        ("seed.py", lambda text: "def run(:", "SyntaxError"),
        ("seed.py", lambda text: None, "has no script"),
    ],
)
def test_a_chapter_that_cannot_be_used_is_told_with_its_file_and_the_others_stay(
    tmp_path: Path, file: str, change, told: str
) -> None:
    path = example(tmp_path) / file
    text = change(path.read_text())
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    plays, problems = load_chapters(tmp_path)
    assert len(plays) == 10
    [problem] = problems
    assert told in problem
    assert str(tmp_path / "seed") in problem


def test_figures_are_asked_for_by_key_and_a_wrong_direction_is_found() -> None:
    section = README.read_text().split("```toml\n")[1].split("```")[0]
    chapter = read_chapter("seed", section)
    assert chapter.broken({"equal": 3}, {"equal": 1}) == []
    assert [row.key for row in chapter.broken({"equal": 1}, {"equal": 3})] == ["equal"]
    with pytest.raises(ChapterError, match="not complete"):
        read_chapter("seed", section.replace("number = 11", ""))
