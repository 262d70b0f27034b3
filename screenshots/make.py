"""Makes the README's pictures: recorded conversations, played back on the screen.

    python -m screenshots.make [name …]

Run from the repository. The traces are in tests/traces (`make traces` records them anew, with the real model); the same
traces and the same code give the same pictures. None of the SVGs beside this file is made by hand.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import tempfile
from pathlib import Path

from cutaway.tui.svg import svg

from tests.scenes import LARGE, MIDDLE, SMALL, Scene, maximised
from tests.tour_scenes import TourScene

from . import tour

FOLDER = Path(__file__).parent

# What the pictures show.
PICTURES: dict[str, Scene | TourScene] = {
    "screen-dark": Scene("policies", LARGE, upto=44),
    "screen-light": Scene("policies", LARGE, "light", upto=44),
    "screen-colour-blind": Scene("policies", LARGE, "colour-blind", upto=44),
    "screen-high-contrast": Scene("policies", LARGE, "high-contrast", upto=44),
    "screen-no-colour": Scene("policies", LARGE, "no-colour", upto=44),
    "screen-120x40": Scene("fork", MIDDLE, upto=46),
    "screen-80x24": Scene("streamed", SMALL, upto=40),
    "screen-80x24-panel": Scene("streamed", SMALL, upto=40, keys=("f6",)),
    "screen-streamed": Scene("streamed", LARGE, upto=40),
    "screen-buffered": Scene("buffered", LARGE, upto=90),
    "lifecycle": Scene("streamed", MIDDLE, upto=40),
    "tokens": Scene("prefix", (120, 24), keys=maximised("tokens")),
    "lanes-continuous": Scene("policies", (120, 20), upto=110, keys=maximised("lanes")),
    "lanes-static": Scene("policies", (120, 20), upto=290, keys=maximised("lanes")),
    "prefill-triangle": Scene("stepped", (120, 36), upto=3, keys=maximised("triangle")),
    "kv-pages": Scene("policies", (100, 14), upto=44, keys=maximised("pages")),
    "kv-pages-shared": Scene("prefix", (100, 14), upto=30, keys=maximised("pages")),
    "screen-preemption": Scene("preemption", MIDDLE, upto=90),
    "next-token-cold": Scene("temperatures", (110, 28), upto=16, keys=maximised("candidates")),
    "next-token-hot": Scene("temperatures", (110, 28), keys=maximised("candidates")),
    "timeline": Scene("buffered", (120, 15), keys=maximised("timeline")),
    **tour.PICTURES,
}
# Only these rows of the screen.
ROWS: dict[str, slice] = {"lifecycle": slice(0, 2)}


async def picture(name: str, scene: Scene | TourScene) -> str:
    """The screen of a scene as SVG."""
    app = scene.app()
    async with app.run_test(size=scene.size) as pilot:
        await scene.play(pilot)
        await pilot.pause()
        strips = app.screen._compositor.render_strips()[: scene.size[1]][ROWS.get(name, slice(None))]
        await app.end_engine()
    return svg(strips, scene.size[0], "cutaway", name)


def make(names: list[str]) -> None:
    """Write the pictures, without anything of the user's own."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("CONFIG", "DATA", "STATE"):
            os.environ[f"CUTAWAY_{kind}_DIR"] = folder
        for name in names:
            scene = PICTURES[name]
            os.environ["NO_COLOR"] = "1" if scene.theme == "no-colour" else ""
            if scene.theme == "no-colour":
                scene = dataclasses.replace(scene, theme="dark")
            made = asyncio.run(picture(name, scene))
            (FOLDER / f"{name}.svg").write_text(made, encoding="utf-8")
            print(f"screenshots/{name}.svg")


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PICTURES)
    if unknown := sorted(set(wanted) - set(PICTURES)):
        raise SystemExit(f"There is no picture {unknown[0]!r}; there are {', '.join(PICTURES)}.")
    make(wanted)
