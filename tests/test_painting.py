"""What is written to the terminal, piece by piece, makes the same screen as painting it whole."""

from __future__ import annotations

from typing import Any

import pyte
import pytest
from cutaway.tui.framed import Part
from cutaway.tui.panels import TokenRow
from cutaway.tui.scrolling import LineView
from rich.segment import Segment
from textual._compositor import CompositorUpdate
from textual.geometry import Region
from textual.strip import Strip

from .screen_run import Running, running


class Written:
    """A terminal that takes what an application under test would write to one."""

    def __init__(self, run: Running) -> None:
        self.run = run
        self.updates: list[str] = []
        self._start(*run.app.size)
        display = run.app._display

        def write(screen: Any, update: Any) -> None:
            if isinstance(update, CompositorUpdate):
                self.updates.append(update.render_segments(run.app.console))
                self._stream.feed(self.updates[-1])
            display(screen, update)

        run.app._display = write  # pyright: ignore[reportAttributeAccessIssue] - in the place of the method
        run.app.screen.refresh()

    def _start(self, width: int, height: int) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self.screen)

    async def resize(self, width: int, height: int) -> None:
        """As a terminal does: what stood there is lost."""
        self._start(width, height)
        await self.run.pilot.resize_terminal(width, height)
        self.run.app.screen.refresh()

    async def is_the_screen(self, moment: str) -> None:
        def same() -> bool:
            return [row.rstrip() for row in self.screen.display] == [row.rstrip() for row in self.run.frame()]

        await self.run.until(same, f"the terminal to show the screen {moment}")


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_a_terminal_shows_the_screen_after_every_kind_of_change(size: tuple[int, int]) -> None:
    async with running(size) as run:
        written = Written(run)
        await written.is_the_screen("at first")
        await run.ask("tell me a long story about a fox " * 8)
        await written.is_the_screen("after a reply")
        await run.ask("and another one")
        await written.is_the_screen("after another, scrolled")
        run.main.view.scroll_to(y=0, animate=False)
        await written.is_the_screen("scrolled up")
        run.main.say("something in front")
        await written.is_the_screen("with a notice in front")
        await run.main.run_action("palette")
        await written.is_the_screen("under a dialog")
        await run.pilot.press("escape")
        await run.outside("left_square_bracket")
        await written.is_the_screen("with another message chosen")
        await written.resize(120, 40)
        await run.ask("a third")
        await written.is_the_screen("at another size")


async def test_what_stands_on_the_terminal_is_not_written_again() -> None:
    async with running((160, 48)) as run:
        written = Written(run)
        await run.ask("tell me a story")
        await written.is_the_screen("after a reply")
        screen, tokens, began = run.app.screen, run.app.screen.query_one(TokenRow), 0
        for _ in range(2):  # what was laid out anew is written once
            await run.pilot.pause()
            began = len(written.updates)
            tokens.refresh(Region(0, 0, tokens.size.width, tokens.size.height))
            await run.until(lambda: not screen._dirty_widgets, "the painting")
        assert not [text for text in written.updates[began:] if "story" in text]


def _looks(strip: Strip) -> list[Segment]:
    """What can be seen of it: styles also say where the mouse is."""
    seen = [Segment(text, style and style.clear_meta_and_links()) for text, style, _ in strip]
    return list(Segment.simplify(seen))


@pytest.mark.parametrize("no_colour", ["", "1"])
async def test_the_parts_of_a_row_that_are_in_sight_are_cut_as_the_whole_row_would_be(
    no_colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    async with running((160, 48)) as run:
        await run.ask("tell me a long story about a fox " * 8)
        await run.settle()
        for view in run.main.query(LineView):
            size = view.region.size
            whole = view.render_lines(size.region)
            spans = [(0, size.width), (0, size.width - 2), (size.width - 1, size.width), (1, size.width - 1), (2, 7)]
            for left, right in [span for span in spans if 0 <= span[0] < span[1]]:
                for _ in range(2):  # made, and kept
                    parts = [Part(row, left, right) for row in range(size.height)]
                    for strip, row in zip(view.cut(size, parts), whole, strict=True):
                        wanted = row.crop(left, right)
                        assert _looks(strip) == _looks(wanted), view
