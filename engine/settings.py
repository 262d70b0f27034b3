"""The border check of sampling settings: each field's range, said in one sentence."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Any

import msgspec

from .errors import SettingError
from .protocol import SamplingSettings

Test = Callable[[Any], bool]


def _number(low: float, high: float = math.inf) -> Test:
    return lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) and low <= v <= high


def _whole(low: int, high: int) -> Test:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _optional(test: Test) -> Test:
    return lambda v: v is None or test(v)


RANGES: dict[str, tuple[str, Test]] = {
    "temperature": ("a number from 0 (greedy) up", _number(0.0)),
    "top_k": ("a whole number, 0 (off) or more", _whole(0, 2**31 - 1)),
    "top_p": ("a number above 0 and at most 1 (off)", lambda v: _number(0.0, 1.0)(v) and v > 0),
    "min_p": ("a number from 0 (off) to 1", _number(0.0, 1.0)),
    "repetition_penalty": ("a number above 0; 1 is off", lambda v: _number(0.0)(v) and v > 0),
    "presence_penalty": ("a number from -2 to 2; 0 is off", _number(-2.0, 2.0)),
    "frequency_penalty": ("a number from -2 to 2; 0 is off", _number(-2.0, 2.0)),
    "seed": ("a whole number from 0 to 2^63 - 1, or nothing", _optional(_whole(0, 2**63 - 1))),
    "max_tokens": ("a whole number, 1 or more, or nothing for as many as fit", _optional(_whole(1, 2**31 - 1))),
    "min_tokens": ("a whole number, 0 or more", _whole(0, 2**31 - 1)),
    "stop": (
        "up to 64 strings, none of them empty",
        lambda v: len(v) <= 64 and all(isinstance(s, str) and s for s in v),
    ),
    "stop_ids": ("token ids of this model", lambda v: all(_whole(0, 2**31 - 1)(i) for i in v)),
    "ignore_eos": ("true or false", lambda v: isinstance(v, bool)),
    "logit_bias": (
        "token ids with numbers from -100 to 100",
        lambda v: all(_whole(0, 2**31 - 1)(k) and _number(-100.0, 100.0)(b) for k, b in v.items()),
    ),
    "allowed_ids": (
        "at least one token id, or nothing for all",
        _optional(lambda v: len(v) > 0 and all(_whole(0, 2**31 - 1)(i) for i in v)),
    ),
    "candidates": ("a whole number from 0 to 64", _whole(0, 64)),
}


def check(settings: SamplingSettings, vocabulary: int | None = None) -> SamplingSettings:
    """Return `settings` if every field is in range.

    Raises `SettingError` naming the first field that is not, with its range. With `vocabulary` (tokens), ids in
    `stop_ids`, `logit_bias` and `allowed_ids` must be below it.
    """
    for field, (expected, valid) in RANGES.items():
        value = getattr(settings, field)
        try:
            good = valid(value)
        except (TypeError, AttributeError):
            good = False
        if not good:
            raise SettingError(field, f"{field} must be {expected}, not {value!r}.")
    if vocabulary is not None:
        ids = {"stop_ids": settings.stop_ids, "logit_bias": settings.logit_bias, "allowed_ids": settings.allowed_ids}
        for field, values in ids.items():
            for token in values or ():
                if token >= vocabulary:
                    raise SettingError(
                        field, f"{field} names token {token}, but the model has ids 0 to {vocabulary - 1}."
                    )
    if settings.max_tokens is not None and settings.min_tokens > settings.max_tokens:
        raise SettingError(
            "min_tokens", f"min_tokens ({settings.min_tokens}) must not be above max_tokens ({settings.max_tokens})."
        )
    return settings


def parse(values: dict[str, Any]) -> SamplingSettings:
    """Build settings from loose values (flags, JSON); raises `SettingError` for unknown fields and wrong types."""
    for name in values:
        if name not in RANGES:
            near = difflib.get_close_matches(name, RANGES, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(RANGES)}."
            raise SettingError(name, f"unknown setting {name!r}.", hint)
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingError(name, f"{name} must be {RANGES[name][0]}, not {value!r}.")
        try:
            msgspec.convert({name: value}, SamplingSettings, strict=False)
        except msgspec.ValidationError:
            raise SettingError(name, f"{name} must be {RANGES[name][0]}, not {value!r}.") from None
    return check(msgspec.convert(values, SamplingSettings, strict=False))
