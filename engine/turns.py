"""What a template does around turns, learnt by rendering a short conversation of our own."""

from __future__ import annotations

import dataclasses

from .control import ControlTokens
from .layout import lay_out
from .reasoning import tags_of
from .repairs import Part, Turn
from .template import ChatTemplate, TemplateRefusal

_PROBE = ("Hello there", "Good morning", "How are you")


@dataclasses.dataclass(frozen=True, slots=True)
class TurnFacts:
    """How a template ends a reply: with control tokens, or with plain text that then has to stop generation."""

    end_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()


def probe(template: ChatTemplate, control: ControlTokens) -> TurnFacts:
    """Render user, assistant, user and look at what stands between the reply and the next user turn."""
    return next((facts for parts in (False, True) if (facts := _probe(template, control, parts))), TurnFacts())


def _probe(template: ChatTemplate, control: ControlTokens, parts: bool) -> TurnFacts | None:
    roles = ("user", "assistant", "user")
    turns = tuple(Turn(role, (Part(at, text),)) for at, (role, text) in enumerate(zip(roles, _PROBE, strict=True)))
    try:
        layout = lay_out(template, turns, control, tags_of(template.literals), generation=False, parts=parts)
    except TemplateRefusal:
        return None
    ends = [o.end for o in layout.owned if o.message == 1]
    starts = [o.start for o in layout.owned if o.message == 2]
    if not (layout.exact and ends and starts and ends[-1] <= starts[0]):
        return None
    between = layout.text[ends[-1] : starts[0]]
    first = next((span for span in layout.controls if span[0] >= ends[-1]), (len(layout.text), len(layout.text)))
    written = between[: max(0, first[0] - ends[-1])]
    if written.strip():
        return TurnFacts(stop=_stop_string(written))
    # Channels are parts of one reply, each closed by the same token: only the model's own files say which one is last.
    if "<|channel|>" in template.literals or first[1] > starts[0]:
        return TurnFacts()
    return TurnFacts(end_ids=(control.ids[layout.text[first[0] : first[1]]],))


def _stop_string(written: str) -> tuple[str, ...]:
    """The first line of what is written before the next user turn, with the space before it: "\\nUser:"."""
    lead = written[: len(written) - len(written.lstrip())]
    line = written.strip().splitlines()[0].rstrip()
    return (lead + line,) if any(character.isalnum() for character in line) else ()
