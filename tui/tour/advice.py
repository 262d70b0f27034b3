"""What the reader can do next, in one sentence. No Textual."""

from __future__ import annotations

from .progress import Tour


def advice(tour: Tour, chosen: str) -> str:
    """For the chapter the reader is in, with this setting chosen."""
    chapter, mark = tour.chapter, tour.mark
    if mark.pick is None:
        numbers = ", ".join(map(str, range(1, len(chapter.picks) + 1)))
        return f"Answer first: {numbers}. There are no marks, and you can change it."
    untried = tour.untried(chapter)
    if chosen in untried:
        return f"Enter runs it: {chapter.setting(chosen).name}."
    if untried:
        return f"Seen. ← → takes the other, Enter runs it: {chapter.setting(untried[0]).name}."
    both = tour.both(chapter)
    if both is not None and (odd := chapter.broken(both[0].figures, both[1].figures)):
        return f"This time it came out the other way: {odd[0].name}. A busy machine? Enter measures again."
    if tour.at + 1 < len(tour.chapters):
        return "Both seen. n goes on to the next chapter; Enter measures again."
    if tour.complete():
        return "The tour is done. s saves it; Esc leaves; b and j go back."
    left = sum(not tour.done(chapter) for chapter in tour.chapters)
    return f"Both seen. {left} chapter{'s' if left > 1 else ''} left: j shows which. s saves what there is."


def marks_of(tour: Tour) -> list[str]:
    """One mark a chapter: ✓ done, ◐ one setting seen, ○ not begun."""
    marks: list[str] = []
    for chapter in tour.chapters:
        seen = tour.marks[chapter.name].seen if chapter.name in tour.marks else ()
        marks.append("✓" if tour.done(chapter) else "◐" if seen else "○")
    return marks


def trail(tour: Tour) -> str:
    """The marks in a row, the current chapter's in brackets."""
    return "".join(f"[{mark}]" if at == tour.at else mark for at, mark in enumerate(marks_of(tour)))
