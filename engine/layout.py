"""Lays a conversation out in a template's text and tells who wrote each character: the template or a message.

The template is rendered with private-use marks around each message's text. If taking the marks out gives what the
template renders without them, the marks say exactly which characters are whose. If not, the template looks into the
text (or trims it), and other places for the marks are tried. Marks inside everything that reads like a control token
stay in every rendering: a template can't be fooled by a marker that a user typed, and what they mark is never a
control token.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from .control import ControlTokens, unused_characters
from .reasoning import Tags, take_apart
from .repairs import Part, Turns
from .template import ChatTemplate

_INDEX = 0x100000  # one private-use character for each message index, only read after an opening mark


@dataclasses.dataclass(frozen=True, slots=True)
class Owned:
    """Characters [start, end) of the text that are a message's."""

    start: int
    end: int
    message: int


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """A run of a message's content: its own words, or a think tag that stands for itself."""

    text: str
    own: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A rendered conversation. `exact` is False if whose characters are whose had to be guessed by searching."""

    text: str
    owned: tuple[Owned, ...]
    controls: tuple[tuple[int, int], ...]  # control tokens, all the template's own
    exact: bool = True

    def extended(self, segments: Sequence[Segment], message: int, control: ControlTokens) -> Layout:
        """This layout with a message's text after it."""
        text, owned, controls = self.text, list(self.owned), list(self.controls)
        for segment in segments:
            start, text = len(text), text + segment.text
            if segment.own:
                owned.append(Owned(start, len(text), message))
            else:
                controls += control.find(text, start)
        return Layout(text, tuple(owned), tuple(controls), self.exact)

    def cut(self, start: int, end: int) -> Layout:
        """This layout without characters [start, end), which must be the template's."""
        size = end - start

        def moved(position: int) -> int:
            return position if position <= start else position - size

        return Layout(
            self.text[:start] + self.text[end:],
            tuple(Owned(moved(o.start), moved(o.end), o.message) for o in self.owned),
            tuple((moved(a), moved(b)) for a, b in self.controls if b <= start or a >= end),
            self.exact,
        )


def lay_out(
    template: ChatTemplate,
    turns: Turns,
    control: ControlTokens,
    tags: Tags,
    *,
    generation: bool,
    parts: bool = False,
) -> Layout:
    """Render `turns`, as `ChatTemplate.render` does. Raises `TemplateRefusal` if the template will not."""
    knows = tags.close in template.literals
    contents = [[(part, segments_of(turn.role, part, tags, knows)) for part in turn.parts] for turn in turns]
    texts = [segment.text for content in contents for _, segments in content for segment in segments]
    marks = _Marks(*unused_characters(3, [*texts, template.source, *template.variables.values()]))

    def render(wrap: Callable[[str, int], str]) -> str:
        messages = [
            {
                "role": turn.role,
                "content": _joined(content, lambda text, index: wrap(control.guard(text, marks.hold), index)),
            }
            for turn, content in zip(turns, contents, strict=True)
        ]
        return template.render(messages, generation=generation, parts=parts)

    plain = marks.read(render(lambda text, index: text))
    for wrap in (marks.around, marks.inside_spaces):
        marked = marks.read(render(wrap))
        if marked.owned is not None and marked.text == plain.text:
            return Layout(marked.text, marked.owned, _between(control, marked.text, marked.owned))
    owned = _search(plain.text, [(part.message, s.text) for c in contents for part, ss in c for s in ss if s.own])
    return Layout(plain.text, owned, _unheld(control, plain.text, plain.held), exact=False)


def segments_of(role: str, part: Part, tags: Tags, knows: bool = True) -> list[Segment]:
    """A message's content in segments.

    A reply that begins with the opening think tag keeps its tags as tags, if the template `knows` them and so decides
    what becomes of the reasoning; else only the answer is left. Reasoning that was interrupted is closed.
    """
    reply = take_apart(part.content, tags) if role == "assistant" else None
    if reply is None or reply.reasoning is None:
        return [Segment(part.content)]
    if not knows:
        return [Segment(reply.answer.lstrip())]
    closing = tags.close if reply.closed else f"\n{tags.close}\n\n"
    return [Segment(tags.open, False), Segment(reply.reasoning), Segment(closing, False), Segment(reply.answer)]


def _joined(content: Sequence[tuple[Part, list[Segment]]], wrap: Callable[[str, int], str]) -> str:
    return "\n\n".join(
        "".join(wrap(s.text, part.message) if s.own and s.text else s.text for s in segments)
        for part, segments in content
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    text: str
    owned: tuple[Owned, ...] | None  # None: the marks came back torn
    held: tuple[int, ...]  # positions right after the first character of what must not be a control token


@dataclasses.dataclass(frozen=True, slots=True)
class _Marks:
    hold: str
    open: str
    close: str

    def around(self, text: str, index: int) -> str:
        return f"{self.open}{chr(_INDEX + index)}{text}{self.close}"

    def inside_spaces(self, text: str, index: int) -> str:
        core = text.strip()
        if not core:
            return text
        lead = text[: len(text) - len(text.lstrip())]
        return f"{lead}{self.around(core, index)}{text[len(lead) + len(core) :]}"

    def read(self, rendered: str) -> _Read:
        """Take the marks out and tell what they marked."""
        pieces: list[str] = []
        owned: list[Owned] = []
        held: list[int] = []
        at = length = 0
        begun: tuple[int, int] | None = None
        torn = False
        for match in re.finditer(f"{self.open}(.)|{self.close}|{self.hold}", rendered, re.DOTALL):
            pieces.append(rendered[at : match.start()])
            length += match.start() - at
            at = match.end()
            if match[0] == self.hold:
                held.append(length)
            elif match[0] == self.close:
                torn = torn or begun is None
                if begun is not None:
                    owned.append(Owned(begun[0], length, begun[1]))
                begun = None
            else:
                torn = torn or begun is not None
                begun = (length, ord(match[1]) - _INDEX)
        pieces.append(rendered[at:])
        torn = torn or begun is not None
        return _Read("".join(pieces), None if torn else tuple(owned), tuple(held))


def _between(control: ControlTokens, text: str, owned: Sequence[Owned]) -> tuple[tuple[int, int], ...]:
    """Control tokens in what no message owns."""
    edges = [0, *(edge for o in owned for edge in (o.start, o.end)), len(text)]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple(span for start, end in gaps for span in control.find(text, start, end))


def _unheld(control: ControlTokens, text: str, held: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Control tokens that no holding mark lies in."""
    found: list[tuple[int, int]] = []
    for start, end in control.starts(text):
        if not any(start < position <= end for position in held) and (not found or start >= found[-1][1]):
            found.append((start, end))
    return tuple(found)


def _search(text: str, contents: Sequence[tuple[int, str]]) -> tuple[Owned, ...]:
    """Where the contents probably are, in order: good enough to show whose a token is, not to decide what it means."""
    owned: list[Owned] = []
    at = 0
    for message, content in contents:
        for words in (content, content.strip()):
            start = text.find(words, at) if words else -1
            if start >= 0:
                at = start + len(words)
                owned.append(Owned(start, at, message))
                break
    return tuple(owned)
