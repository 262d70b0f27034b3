"""What the first row says of how a step is computed."""

from __future__ import annotations

import msgspec
from cutaway.tui.screens.topbar import computing

from .test_bench_measures import CARD


def told(**changes: object) -> list[str]:
    return [text for text, _ in computing(msgspec.structs.replace(CARD, **changes))]


def test_threads_and_kernel_are_told() -> None:
    assert told(kernel="our int8") == ["2 threads", "our int8"]
    assert told(threads=1) == ["1 thread"]


def test_deterministic_replies_are_told() -> None:
    assert told(deterministic=True, kernel="k") == ["2 threads", "deterministic", "k"]


def test_a_device_of_its_own_has_no_threads_to_tell() -> None:
    assert told(device="cuda:0", kernel="FlashAttention") == ["FlashAttention"]
    assert told(device="", threads=0) == []
