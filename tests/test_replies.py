"""Several replies on one output, one after the other."""

from __future__ import annotations

import pytest
from cutaway.engine.protocol import Finished, TextDelta
from cutaway.tui.commands.output import Output
from cutaway.tui.commands.replies import Replies


def said(request: str, text: str) -> TextDelta:
    return TextDelta(request, 0, text, 1, 0)


def test_a_reply_waits_for_the_one_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    replies = Replies(Output())
    replies.begin("a", 1, "A: ")
    replies.begin("b", 1, "B: ")
    for event in (said("b", "two"), said("a", "one"), Finished("b", 0, "end"), Finished("a", 0, "end")):
        replies.show(event)
    replies.rest()
    assert capsys.readouterr().out == "A: one\nB: two\n"


def test_a_prompt_told_again_changes_a_heading_only_while_it_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    replies = Replies(Output())
    replies.begin("a", 1, "?: ")
    replies.begin("a", 1, "A: ")
    replies.show(said("a", "one"))
    replies.begin("a", 1, "late: ")
    replies.show(said("a", " two"))
    replies.show(Finished("a", 0, "end"))
    replies.begin("a", 1, "later: ")
    replies.begin("b", 1, "B: ")
    replies.show(said("b", "three"))
    replies.rest()
    assert capsys.readouterr().out == "A: one two\nB: three\n"
