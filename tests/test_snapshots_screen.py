"""The whole screen over recorded conversations, compared with pictures that were looked at and accepted.

After a wanted change, look at the report of the run that failed (snapshot_report.html), and then accept it with
`pytest tests/test_snapshots_screen.py tests/test_snapshots_panels.py --snapshot-update`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cutaway.tui.playback import Playback

from .scenes import LARGE, MIDDLE, SMALL, Scene, token

LOOKS = ("dark", "light", "no-colour")
SIZES = {"80x24": SMALL, "120x40": MIDDLE, "160x48": LARGE}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES)
def test_a_question_among_traffic(snapped: Callable[..., bool], size: str, look: str) -> None:
    assert snapped(Scene("policies", SIZES[size], upto=40), look)


def doubtful(session: Playback) -> None:
    """Go to the token that the fork forced."""
    request = session.state.requests["chat-2"]
    token("chat-2", request.prompt_length + request.samples[0].kept - 1)(session)


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene("streamed", MIDDLE), id="a-streamed-reply-at-its-end"),
        pytest.param(Scene("buffered", MIDDLE, upto=90), id="a-buffered-reply-before-it-is-shown"),
        pytest.param(Scene("policies", MIDDLE, upto=290), id="a-static-batch-with-padding"),
        pytest.param(Scene("temperatures", MIDDLE), id="a-hot-reply"),
        pytest.param(Scene("prefix", MIDDLE, upto=30), id="a-system-prompt-shared-by-two-chats"),
        pytest.param(Scene("fork", MIDDLE, upto=46, choose=doubtful), id="a-fork-on-shared-pages"),
        pytest.param(Scene("recompute", MIDDLE, upto=30), id="decoding-without-kv-reuse"),
        pytest.param(Scene("preemption", MIDDLE, upto=90), id="a-pool-that-is-too-small"),
        pytest.param(Scene("stepped", MIDDLE, upto=2), id="a-prompt-half-read"),
    ],
)
def test_what_a_recording_shows(snapped: Callable[..., bool], scene: Scene) -> None:
    assert snapped(scene)
