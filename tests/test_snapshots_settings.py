"""The screens of settings at 80 by 24, compared with pictures that were looked at and accepted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from cutaway.tui.app import CutawayApp
from cutaway.tui.playback import Playback
from cutaway.tui.settings.document import read
from cutaway.tui.settings.layers import Layers
from cutaway.tui.settings.live import LiveSettings
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from .scenes import SMALL, TRACES, Scene

FILE = """\
[sampling]
temperature = 0.5
stop = ["###"]
[presets.translator]
system = "Translate into French."
temperature = 0.2
[presets.pirate]
system = "Speak like a pirate."
[templates.translate]
text = "Translate this into {language}: {text}"
"""


@dataclasses.dataclass(frozen=True)
class Opened(Scene):
    """A scene with the settings of `FILE`."""

    def app(self) -> CutawayApp:
        settings = LiveSettings(Layers(read(FILE, Path("settings.toml")), {"threads": 2}))
        return CutawayApp(Playback(TRACES / f"{self.trace}.trace", speed=None), theme=self.theme, settings=settings)

    async def play(self, pilot: Pilot[None]) -> None:
        await super().play(pilot)
        await pilot.pause()
        for field in [*pilot.app.screen.query(Input), *pilot.app.screen.query(TextArea)]:
            field.cursor_blink = False
        for area in pilot.app.screen.query(TextArea):
            area.notify_style_update()
        await pilot.pause()


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(("escape", "O"), id="settings"),
        pytest.param(("escape", "O", *"stop"), id="settings-searched"),
        pytest.param(("escape", "P"), id="presets"),
        pytest.param(("escape", "F", "enter", *"French", "enter"), id="template"),
        pytest.param(("escape", "ampersand"), id="themes"),
    ],
)
def test_a_screen_of_settings(
    snapped: Callable[..., bool], monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CUTAWAY_CONFIG_DIR", "/config")
    assert snapped(Opened("streamed", SMALL, keys=keys))
