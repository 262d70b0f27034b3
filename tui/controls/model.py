"""What can be set and switched, and in which words. No Textual.

Sampling settings are ours until a request takes them; switches are the engine's, and only its `Configured` says how
they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import msgspec

from ...engine import settings as border
from ...engine.errors import SettingError
from ...engine.protocol import SamplingSettings, Switches

Kind = Literal["number", "switch", "deed"]


class Number(msgspec.Struct, frozen=True):
    """A sampling setting: its field, its name on screen, the step of one key press, and what stands for "off"."""

    field: str
    name: str
    step: float
    low: float
    high: float
    off: float | None = None
    decimals: int = 2
    start: float = 0.0  # the first value when there was none

    @property
    def title(self) -> str:
        """Its range in words."""
        return f"{self.name}: {border.RANGES[self.field][0]}"

    def text(self, settings: SamplingSettings) -> str:
        value = getattr(settings, self.field)
        if value is None:
            return f"{self.name} –"
        if self.field == "temperature" and value == 0:
            return f"{self.name} 0 greedy"
        if self.off is not None and value == self.off:
            return f"{self.name} off"
        return f"{self.name} {value:.{self.decimals}f}"

    def moved(self, settings: SamplingSettings, by: int) -> SamplingSettings:
        """The settings with this one moved by some steps, within its range."""
        value = getattr(settings, self.field)
        if value is None:
            new: float | None = self.start
        else:
            new = round(value + by * self.step, self.decimals)
            if self.field in ("seed", "max_tokens") and new < self.low:
                new = None
            else:
                new = min(self.high, max(self.low, new))
        return self.put(settings, new)

    def put(self, settings: SamplingSettings, value: float | None) -> SamplingSettings:
        if value is not None and self.decimals == 0:
            value = int(value)
        return border.check(msgspec.structs.replace(settings, **{self.field: value}))

    def read(self, settings: SamplingSettings, text: str) -> SamplingSettings:
        """The settings with this one as typed. Raises `SettingError` with the range in words."""
        text = text.strip().lower()
        if text in ("", "-", "–", "none", "off"):
            empty = getattr(SamplingSettings(), self.field)
            return self.put(settings, self.off if self.off is not None else None if empty is None else empty)
        try:
            value = float(text.replace(",", "."))
            if self.decimals == 0 and (not math.isfinite(value) or value != int(value)):
                raise ValueError
        except ValueError:
            raise SettingError(
                self.field, f"{self.name} must be {border.RANGES[self.field][0]}, not {text!r}."
            ) from None
        if self.decimals == 0 and text.isdecimal():
            return border.check(msgspec.structs.replace(settings, **{self.field: int(text)}))
        return self.put(settings, value)


NUMBERS: tuple[Number, ...] = (
    Number("temperature", "T", 0.05, 0.0, 5.0),
    Number("top_p", "top-p", 0.05, 0.05, 1.0, off=1.0),
    Number("top_k", "top-k", 5, 0, 100_000, off=0, decimals=0),
    Number("min_p", "min-p", 0.01, 0.0, 1.0, off=0.0),
    Number("seed", "seed", 1, 0, 2**63 - 1, decimals=0),
    Number("max_tokens", "max", 16, 1, 2**31 - 1, decimals=0, start=256),
)


class Switch(msgspec.Struct, frozen=True):
    """One of the engine's switches: the action that turns it, and how it reads."""

    action: str
    text: Callable[[Switches], str]
    short: Callable[[Switches], str]  # for narrow screens
    needs: str = ""  # the capability without which it is not shown


SWITCHES: tuple[Switch, ...] = (
    Switch(
        "delivery",
        lambda s: "▸ streamed" if s.delivery == "streamed" else "▤ buffered",
        lambda s: "▸ stream" if s.delivery == "streamed" else "▤ buffer",
    ),
    Switch(
        "policy",
        lambda s: "⟳ continuous" if s.policy == "continuous" else "▦ static",
        lambda s: "⟳ cont." if s.policy == "continuous" else "▦ static",
        needs="switches",
    ),
    Switch(
        "prefix_cache",
        lambda s: "≡ prefix cache" if s.prefix_cache else "□ no prefix cache",
        lambda s: "≡ prefix" if s.prefix_cache else "□ prefix",
        needs="switches",
    ),
    Switch(
        "kv_reuse",
        lambda s: "↻ KV reuse" if s.kv_reuse else "∑ recompute",
        lambda s: "↻ reuse" if s.kv_reuse else "∑ recomp.",
        needs="switches",
    ),
    Switch(
        "pause",
        lambda s: "▸ resume" if s.paused else "‖ pause",
        lambda s: "▸ resume" if s.paused else "‖ pause",
        needs="pause",
    ),
)
DEEDS: tuple[tuple[str, str, str], ...] = (  # action, text, the capability without which it is not shown
    ("step", "⇥ step", "pause"),
    ("traffic", "≋ traffic", ""),
    ("clear_cache", "⌫ cache", "switches"),
    ("keys", "keys", ""),
)
