"""Messages to a laid-out prompt: repaired where the template refuses, and open-ended where a reply is continued."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, TypeAlias

from .errors import PromptError
from .layout import Layout, Owned, Segment, lay_out, segments_of
from .protocol import Message
from .reasoning import Tags, opened_by, tags_of, take_apart
from .repairs import Part, Repaired, Turn, repairs_of
from .template import ChatTemplate, TemplateRefusal

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

Numbered: TypeAlias = tuple[tuple[int, Message], ...]  # messages with their indices in the conversation


@dataclasses.dataclass(frozen=True, slots=True)
class LaidOut:
    """A conversation's text with what was done to it and how the reply will begin."""

    layout: Layout
    repairs: tuple[str, ...]
    notes: tuple[str, ...]
    reasoning: Tags
    opens_reasoning: bool
    midway: bool


class Chat:
    """One tokenizer and template. `continue_last` leaves the last message, the assistant's, unfinished."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, continue_last: bool = False) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.continue_last = continue_last
        self.control = tokenizer.control_under(template)
        self.tags = tags_of(template.literals)

    def lay_out(self, messages: Numbered) -> LaidOut:
        """Raises `PromptError`, quoting the template, if it refuses these messages however they are repaired."""
        content = messages[-1][1].content if self.continue_last else ""
        if content:
            reply = take_apart(content, self.tags)
            thinking = reply.reasoning is not None and not reply.closed
            layout, told, notes = self._appended(messages) if thinking else self._open_ended(messages)
            opened = self.tags if thinking else None
        else:
            layout, told, notes = self._repaired(messages[:-1] if self.continue_last else messages, generation=True)
            opened = opened_by(layout.text)
        layout, doubled = self._with_one_bos(layout)
        return LaidOut(layout, told, (*notes, *doubled), opened or self.tags, opened is not None, bool(content))

    def _repaired(self, messages: Numbered, *, generation: bool) -> tuple[Layout, tuple[str, ...], tuple[str, ...]]:
        """The first rendering, from least to most repaired, that is accepted and shows every message."""
        turns = tuple(Turn(message.role, (Part(at, message.content),)) for at, message in messages)
        needed = {at for at, message in messages if message.role != "assistant" and message.content.strip()}
        refusal: TemplateRefusal | None = None
        lossy: tuple[Layout, Repaired, set[int]] | None = None
        for parts, repaired in itertools.product((False, True), repairs_of(turns)):
            try:
                layout = lay_out(
                    self.template, repaired.turns, self.control, self.tags, generation=generation, parts=parts
                )
            except TemplateRefusal as error:
                refusal = refusal or error
                continue
            if parts and not layout.exact:
                continue  # a template that wants plain text writes out the list itself
            lost = needed - {owned.message for owned in layout.owned} if layout.exact else set()
            if not lost:
                return layout, repaired.repairs, self._forgotten(messages)
            lossy = lossy or (layout, repaired, lost)
        if lossy is None:
            raise PromptError(
                f'The chat template refuses these messages: "{refusal}".',
                "Change or remove the message it names, or choose another template.",
            ) from refusal
        layout, repaired, lost = lossy
        roles = {at: message.role for at, message in messages}
        lines = tuple(f"The template leaves out message {at + 1} ({roles[at]})." for at in sorted(lost))
        newest = max((at for at in needed if roles[at] == "user"), default=None)
        if newest in lost:
            raise PromptError(
                f"The template leaves out message {newest + 1} (user), the one to answer.", "Choose another template."
            )
        return layout, repaired.repairs, (*lines, *self._forgotten(messages))

    def _forgotten(self, messages: Numbered) -> tuple[str, ...]:
        """A line if replies' reasoning was left out because the template knows no think tags."""
        replies = (take_apart(message.content, self.tags) for _, message in messages if message.role == "assistant")
        if self.tags.close in self.template.literals or all(reply.reasoning is None for reply in replies):
            return ()
        return ("The template knows no reasoning, so that of earlier replies was left out.",)

    def _open_ended(self, messages: Numbered) -> tuple[Layout, tuple[str, ...], tuple[str, ...]]:
        """The template's text up to the end of the last message's words, without what would end the turn."""
        at, message = messages[-1]
        try:
            layout, told, notes = self._repaired(messages, generation=False)
        except PromptError:
            return self._appended(messages)
        ends = [owned for owned in layout.owned if owned.message == at]
        if not (layout.exact and ends and ends[-1] == layout.owned[-1]):
            return self._appended(messages)
        start, end = ends[-1].start, ends[-1].end
        words = layout.text[start:end]
        # Spaces at the end are the reply's too, even if the template trims finished replies.
        spaces = message.content[len(message.content.rstrip()) :] if words == words.rstrip() else ""
        owned = (*layout.owned[:-1], Owned(start, end + len(spaces), at))
        controls = tuple(span for span in layout.controls if span[1] <= end)
        return Layout(layout.text[:end] + spaces, owned, controls), told, notes

    def _appended(self, messages: Numbered) -> tuple[Layout, tuple[str, ...], tuple[str, ...]]:
        """The prompt that asks for a reply, with what the reply said so far after it."""
        layout, told, notes = self._repaired(messages[:-1], generation=True)
        at, message = messages[-1]
        reply = take_apart(message.content, self.tags)
        if reply.reasoning is None:
            segments = [Segment(message.content)]
        elif reply.closed:
            segments = segments_of("assistant", Part(at, message.content), self.tags)
        else:
            segments = [Segment(self.tags.open, False), Segment(reply.reasoning)]
        if opened_by(layout.text) == self.tags and not segments[0].own:
            thought = segments[1].text.removeprefix("\n") if layout.text.endswith("\n") else segments[1].text
            segments[:2] = [Segment(thought)]
        return layout.extended([s for s in segments if s.text], at, self.control), told, notes

    def _with_one_bos(self, layout: Layout) -> tuple[Layout, tuple[str, ...]]:
        """The tokenizer never adds a begin-of-text token to a chat: the template decides, and at most one stays."""
        bos = self.tokenizer.named.get("bos_token", "")
        size = len(bos)
        doubled = False
        while bos and layout.controls[:2] == ((0, size), (size, 2 * size)) and layout.text.startswith(bos * 2):
            layout, doubled = layout.cut(0, size), True
        if doubled:
            return layout, ("The template writes the begin-of-text token more than once; one was kept.",)
        if self.tokenizer.adds_bos and not layout.text.startswith(bos):
            return layout, ("The template writes no begin-of-text token, so the prompt has none.",)
        return layout, ()
