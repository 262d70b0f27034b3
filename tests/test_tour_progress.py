"""The tour's progress: wherever the reader goes and whatever is tried, it stays sound, and it survives the disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from cutaway.tui.tour.advice import advice, trail
from cutaway.tui.tour.chapter import Chapter, Row, Setting
from cutaway.tui.tour.keeping import NAME, ProgressFile
from cutaway.tui.tour.progress import OFFERED, Kept, Outcome, Tour
from hypothesis import given
from hypothesis import strategies as st


def chapter(name: str, number: int = 1) -> Chapter:
    return Chapter(
        number=number,
        title=name.title(),
        text="Text.",
        question="What?",
        picks=["This", "That", "Neither"],
        shown="So it is.",
        control="Switch",
        settings=(Setting("off", "off", "nothing"), Setting("on", "on", "something")),
        panels=["lanes"],
        rows=[Row("work", "work", "count", "<"), Row("said", "said", "text")],
        name=name,
    )


CHAPTERS = [chapter(name, number) for number, name in enumerate(("one", "two", "three"), 1)]


def outcome(tour: Tour, work: float = 1.0) -> Outcome:
    return Outcome({"work": work, "said": "a"}, "Hi.", tour.model, tour.question)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("jump"), st.integers(-2, 5)),
        st.tuples(st.just("pick"), st.integers(-2, 5)),
        st.tuples(st.just("expose"), st.sampled_from(["off", "on"])),
        st.tuples(st.just("ask"), st.sampled_from(["", "  ", "Why?", "Why  so?", OFFERED])),
        st.tuples(st.just("on"), st.sampled_from(["small", "large"])),
        st.tuples(st.sampled_from(["forward", "back"]), st.none()),
    ),
    max_size=30,
)


def done(tour: Tour, deed: str, value: object) -> None:
    if deed == "expose":
        assert isinstance(value, str)
        tour.expose(tour.chapter.name, value, outcome(tour))
    elif value is None:
        getattr(tour, deed)()
    else:
        getattr(tour, deed)(value)


@given(STEPS)
def test_whatever_is_done_the_reader_is_in_a_chapter_and_nothing_done_is_undone(
    steps: list[tuple[str, object]],
) -> None:
    tour = Tour(CHAPTERS)
    for deed, value in steps:
        seen = {name: set(mark.seen) for name, mark in tour.marks.items()}
        picks = {name: mark.pick for name, mark in tour.marks.items() if name != tour.chapter.name}
        done(tour, deed, value)
        assert 0 <= tour.at < len(CHAPTERS)
        assert tour.question.strip()
        for name, settings in seen.items():
            assert settings <= tour.marks[name].seen
        for name, pick in picks.items():
            assert tour.marks[name].pick == pick
        for mark in tour.marks.values():
            assert mark.pick is None or 0 <= mark.pick < 3
            assert set(mark.outcomes) <= mark.seen
            assert all((o.question, o.model) == (tour.question, tour.model) for o in mark.outcomes.values())
        for one in CHAPTERS:
            assert tour.done(one) == (
                tour.marks.get(one.name) is not None and tour.marks[one.name].seen == {"off", "on"}
            )
            assert (tour.both(one) is None) == bool(tour.untried(one))
        assert tour.complete() == all(map(tour.done, CHAPTERS))
        assert advice(tour, "off")
        assert len(trail(tour)) == len(CHAPTERS) + 2


@given(STEPS)
def test_what_is_written_down_leads_back_to_the_same_place(steps: list[tuple[str, object]]) -> None:
    tour = Tour(CHAPTERS)
    for deed, value in steps:
        done(tour, deed, value)
    again = Tour(CHAPTERS)
    again.resume(msgspec.json.decode(msgspec.json.encode(tour.kept()), type=Kept))
    assert again.kept() == tour.kept()
    assert again.chapter is tour.chapter


@given(st.integers(0, 2), st.integers(0, 2))
def test_an_answer_can_be_changed_at_any_time_and_changes_nothing_else(first: int, second: int) -> None:
    tour = Tour(CHAPTERS)
    tour.pick(first)
    tour.expose("one", "off", outcome(tour))
    tour.expose("one", "on", outcome(tour))
    before = dict(tour.mark.outcomes)
    assert tour.pick(second)
    assert tour.mark.pick == second
    assert tour.mark.outcomes == before
    assert tour.done(tour.chapter)


def test_another_question_forgets_the_figures_but_not_what_was_seen() -> None:
    tour = Tour(CHAPTERS)
    for setting in ("off", "on"):
        tour.expose("one", setting, outcome(tour))
    assert tour.ask("  What is   rain?\n")
    assert tour.question == "What is rain?"
    assert tour.both(CHAPTERS[0]) is None
    assert tour.done(CHAPTERS[0])


def test_an_outcome_of_another_model_is_not_compared() -> None:
    tour = Tour(CHAPTERS)
    tour.on("small")
    late = outcome(tour)
    assert tour.on("large")
    tour.expose("one", "off", late)
    assert tour.untried(CHAPTERS[0]) == ["off", "on"]


def test_a_chapter_that_was_rewritten_keeps_only_what_still_fits() -> None:
    tour = Tour(CHAPTERS)
    tour.pick(2)
    tour.expose("one", "off", Outcome({"older": 1.0}, "", "", tour.question))
    tour.expose("one", "gone", outcome(tour))
    again = Tour([msgspec.structs.replace(CHAPTERS[0], picks=["This", "That"])])
    again.resume(tour.kept())
    assert again.mark.pick is None
    assert again.mark.seen == {"off"}
    assert not again.mark.outcomes


def test_progress_on_disk_is_read_again_and_replaced_as_a_whole(tmp_path: Path) -> None:
    tour = Tour(CHAPTERS)
    tour.jump(2)
    tour.pick(1)
    file = ProgressFile(tmp_path / "state")
    assert file.read() is None
    file.write(tour.kept())
    file.write(tour.kept())
    assert file.read() == tour.kept()
    assert [path.name for path in (tmp_path / "state").iterdir()] == [NAME]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"version": 9}', b'{"marks": 3}', bytes(range(256))])
def test_progress_that_cannot_be_understood_is_put_aside_and_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    file = ProgressFile(tmp_path)
    assert file.read() is None
    assert "put aside" in file.problem
    assert (tmp_path / "tour.unreadable.json").read_bytes() == content


def test_a_folder_that_cannot_be_written_costs_the_progress_and_not_the_tour(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    file = ProgressFile(tmp_path / "state")
    file.write(Tour(CHAPTERS).kept())
    assert "not being kept" in file.problem
