"""Switches that change the real computation from the next iteration on, while requests run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .errors import SettingError
from .protocol import Configure, SamplingSettings, SettingsChanged
from .settings import check

if TYPE_CHECKING:
    from .core import EngineCore

SCHEDULING = ("policy", "prefix_cache", "kv_reuse", "token_budget", "max_lanes")
PAGED_ONLY = ("prefix_cache", "token_budget", "max_lanes")
LARGEST = 65536  # of token_budget and max_lanes


def configure(core: EngineCore, command: Configure) -> None:
    """Carry out a `Configure`. Raises `SettingError` for a value out of range; then nothing changes."""
    if command.request is not None:
        if command.settings is not None:
            _configure_request(core, command.request, command.settings)
        return
    for field in ("token_budget", "max_lanes"):
        value = getattr(command, field)
        if value is not None and not 1 <= value <= LARGEST:
            raise SettingError(field, f"{field} must be a whole number from 1 to {LARGEST}, not {value}.")
    changes = {
        name: value for name in (*SCHEDULING, "delivery", "inspect") if (value := getattr(command, name)) is not None
    }
    if core.card.attention == "fallback" and (barred := [name for name in PAGED_ONLY if changes.get(name)]):
        raise SettingError(barred[0], f"{barred[0]} does not apply: this model is served one request at a time.")
    for name in SCHEDULING:
        if name in changes:
            setattr(core.scheduler, name, changes[name])
    if "delivery" in changes:
        for request in core.requests.values():
            request.delivery = changes["delivery"]
            if request.delivery == "streamed":
                core.replies.deliver(request, time.monotonic_ns())
    core.switch(**changes)


def _configure_request(core: EngineCore, name: str, settings: SamplingSettings) -> None:
    """New settings for a running request; one that has ended is left alone, the change came too late."""
    request = core.requests.get(name)
    if request is None:
        return
    request.settings = check(settings, core.card.vocabulary)
    core.emit(SettingsChanged(name, request.settings))
    for sample in request.samples:
        end, request.window_detail = core.intake.limits.end(sample.sequence.prompt_length, request.settings)
        most = min(core.intake.limits.window, core.scheduler.capacity)
        sample.sequence.max_length = min(max(end, len(sample.sequence) + 1), most)
