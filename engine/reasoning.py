"""Reasoning: the text between think tags, told apart from the answer.

A reply reasons if its prompt already wrote the opening tag, or if it begins with one. The tags are never shown.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

Channel: TypeAlias = Literal["answer", "reasoning"]
Pieces: TypeAlias = list[tuple[Channel, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Tags:
    """The texts that open and close reasoning, and one that opens the answer where there is no reasoning."""

    open: str = "<think>"
    close: str = "</think>"
    answer: str = ""
    sign: str = ""  # what in a template tells that these tags are in use, if not the closing one


KNOWN = (
    Tags(),
    Tags("<thinking>", "</thinking>"),
    Tags("<reasoning>", "</reasoning>"),
    Tags("<seed:think>", "</seed:think>"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|channel>thought", "<channel|>"),
    # Harmony (GPT-OSS): each channel is a message of its own, and <|end|> closes every one but the last.
    Tags(
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        answer="<|channel|>final<|message|>",
        sign="<|channel|>",
    ),
)


def tags_of(template: str) -> Tags:
    """The tags a template's text mentions; the common ones if none."""
    return next((tags for tags in KNOWN if (tags.sign or tags.close) in template), KNOWN[0])


def opened_by(prompt: str) -> Tags | None:
    """The tags whose opening one ends `prompt`, spaces aside, or None."""
    end = prompt.rstrip()
    return next((tags for tags in KNOWN if end.endswith(tags.open)), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A stored reply taken apart. `reasoning` is None if it does not begin with the opening tag."""

    reasoning: str | None
    closed: bool
    answer: str


def take_apart(content: str, tags: Tags) -> Reply:
    """Split a stored reply at its leading think tags; tags further on are part of the answer."""
    begun = content.lstrip()
    if not begun.startswith(tags.open):
        return Reply(None, True, content)
    reasoning, closing, answer = begun.removeprefix(tags.open).partition(tags.close)
    return Reply(reasoning, bool(closing), answer)


def put_together(reasoning: str, answer: str, tags: Tags = KNOWN[0]) -> str:
    """The content of a stored reply that reasoned, as chat templates know to read it."""
    return f"{tags.open}\n{reasoning}\n{tags.close}\n\n{answer}" if reasoning else answer


class Splitter:
    """Splits streamed text into reasoning and answer, holding back no more than could be a tag or its spaces.

    `opened` says that the prompt wrote the opening tag. `midway` says that the text goes on one begun before, where
    an opening tag is ordinary text and spaces count.
    """

    def __init__(self, tags: Tags = KNOWN[0], *, opened: bool = False, midway: bool = False) -> None:
        self._tags = tags
        self._state: Literal["start", "opened", "entered", "reasoning", "closed", "answer"] = "start"
        if opened:
            self._state = "reasoning" if midway else "opened"
        elif midway:
            self._state = "answer"
        self._held = ""

    def push(self, text: str) -> Pieces:
        """Pieces that are certain now, in order."""
        self._held += text
        pieces: Pieces = []
        while self._step(pieces):
            pass
        return pieces

    def flush(self) -> Pieces:
        """What was held, at the end of the text."""
        held, self._held = self._held, ""
        if self._state in ("opened", "entered", "reasoning"):
            return _piece("reasoning", held.rstrip())
        if self._state == "closed":
            return _piece("answer", held.lstrip())
        return _piece("answer", held)

    def _step(self, pieces: Pieces) -> bool:
        """Make one decision on the held text; False when it takes more text to go on."""
        if self._state in ("start", "opened"):
            return self._begin()
        if self._state == "reasoning":
            return self._reason(pieces)
        if self._state in ("entered", "closed"):
            # Spaces between a tag and the text after it belong to the tag.
            self._held = self._held.lstrip()
            if self._held:
                self._state = "reasoning" if self._state == "entered" else "answer"
            return bool(self._held)
        pieces.extend(_piece("answer", self._held))
        self._held = ""
        return False

    def _begin(self) -> bool:
        begun, tag, answer = self._held.lstrip(), self._tags.open, self._tags.answer
        if begun.startswith(tag):
            self._state, self._held = "entered", begun.removeprefix(tag)
        elif answer and begun.startswith(answer):
            self._state, self._held = "closed", begun.removeprefix(answer)
        elif tag.startswith(begun) or answer.startswith(begun):
            return False
        elif self._state == "opened":
            self._state = "entered"
        else:
            self._state = "answer"
        return True

    def _reason(self, pieces: Pieces) -> bool:
        thought, closing, rest = self._held.partition(self._tags.close)
        if closing:
            pieces.extend(_piece("reasoning", thought.rstrip()))
            self._state, self._held = "closed", rest
            return True
        certain = len(thought) - partial(thought, self._tags.close)
        certain = len(thought[:certain].rstrip())
        pieces.extend(_piece("reasoning", thought[:certain]))
        self._held = thought[certain:]
        return False


def partial(text: str, tag: str) -> int:
    """Length of the longest end of `text` that is a beginning of `tag`, but not all of it."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-size:])), 0)


def _piece(channel: Channel, text: str) -> Pieces:
    return [(channel, text)] if text else []
