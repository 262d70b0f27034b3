"""Every chapter of the tour over its recording, compared with pictures that were looked at and accepted.

After a wanted change or a new recording, look at the report of the run that failed (snapshot_report.html), and then
accept it with `pytest tests/test_snapshots_tour.py --snapshot-update`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cutaway.tui.tour.scripts import load_chapters

from .tour_scenes import TourScene

CHAPTERS = {play.chapter.name: play.chapter.number for play in load_chapters()[0]}
SIZES = {"80x24": (80, 24), "160x48": (160, 48)}


@pytest.fixture
def snapped(snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> Callable[[TourScene], bool]:
    def compare(scene: TourScene) -> bool:
        monkeypatch.delenv("NO_COLOR", raising=False)
        return snap_compare(scene.app(), terminal_size=scene.size, run_before=scene.play)

    return compare


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_after_both_runs(snapped: Callable[[TourScene], bool], chapter: str, size: str) -> None:
    assert snapped(TourScene(CHAPTERS[chapter], SIZES[size]))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_before_it_is_run(snapped: Callable[[TourScene], bool], chapter: str) -> None:
    assert snapped(TourScene(CHAPTERS[chapter], SIZES["80x24"], runs=0))


def test_a_chapter_in_other_colours(snapped: Callable[[TourScene], bool]) -> None:
    assert snapped(TourScene(CHAPTERS["batch"], (120, 40), theme="light"))
