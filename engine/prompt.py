"""From messages, text or ids to a prompt: the text, its tokens, and whose each token is."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence

from .as_drawn import as_drawn
from .chat import Chat, Numbered
from .control import Encoded
from .errors import PromptError, TooLongError
from .layout import Owned
from .protocol import Message, PromptToken, Role
from .reasoning import KNOWN, Tags
from .spans import spans_of
from .tokenizer import Tokenizer, well_formed

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
}
_ROLE = re.compile(r"[\w.-]{1,64}")


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt ready to run. `tokens[i].id == ids[i]`, and a token's characters are `text[start:end]`."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[PromptToken, ...]
    repairs: tuple[str, ...] = ()
    left_out: tuple[int, ...] = ()  # indices of messages outside the window
    stop: tuple[str, ...] = ()  # stop strings that the template implies
    end_ids: tuple[int, ...] = ()  # end tokens that the template implies
    notes: tuple[str, ...] = ()
    template_ns: int = 0  # duration
    tokenize_ns: int = 0  # duration
    opens_reasoning: bool = False  # the reply begins inside think tags
    reasoning: Tags = KNOWN[0]
    midway: bool = False  # the reply goes on a text: a completion, or an unfinished answer


def render(
    tokenizer: Tokenizer,
    messages: Sequence[Message] = (),
    *,
    text: str | None = None,
    token_ids: Sequence[int] | None = None,
    window: int = 0,
    reserve: int = 1,
    fit: bool = True,
    continue_last: bool = False,
    template: str = "",
) -> Prompt:
    """Build a prompt from exactly one of `messages`, `text` and `token_ids`.

    `window` is in tokens, 0 for no limit; `reserve` of them are kept for the reply where that is possible. With
    `fit` whole oldest turns of `messages` are left out until the rest fits. `template` names another template than
    the model's own. With `continue_last` the prompt ends right after the last message's text.

    Raises `PromptError` if there is no template or it refuses the messages, `TooLongError` if what can't be left out
    is longer than the window.
    """
    if token_ids is not None:
        return _within(_from_ids(tokenizer, token_ids), window, "The prompt")
    if text is not None:
        return _within(_from_text(tokenizer, well_formed(text)), window, "The prompt")
    numbered = tuple((at, Message(m.role, well_formed(m.content), m.token_ids)) for at, m in enumerate(messages))
    _check(numbered, continue_last)
    chat = Chat(tokenizer, tokenizer.template(template), continue_last)
    prompt = _from_messages(chat, numbered)
    if not window or len(prompt.ids) <= window - reserve or not fit:
        return _within(prompt, window, "The prompt")
    return _fitted(chat, numbered, window, reserve)


def _check(messages: Numbered, continue_last: bool) -> None:
    if not messages:
        raise PromptError("There are no messages to answer.", "Send one.")
    for at, message in messages:
        if not _ROLE.fullmatch(message.role):
            raise PromptError(f"Message {at + 1} has the role {message.role!r}, which is no single word.")
    last = messages[-1][1].role
    if continue_last and last != "assistant":
        raise PromptError(f"There is no reply to continue: the last message has the role {last}, not assistant.")


def _from_text(tokenizer: Tokenizer, text: str) -> Prompt:
    began = time.perf_counter_ns()
    encoded = tokenizer.encode_with_offsets(text)
    if tokenizer.adds_bos and tokenizer.bos_id is not None:
        encoded = [Encoded(tokenizer.bos_id, 0, 0, True), *encoded]
    tokens = _tokens(tokenizer, encoded, (Owned(0, len(text), -1),), {-1: "raw"})
    ids = tuple(token.id for token in tokens)
    took = time.perf_counter_ns() - began
    return Prompt(text, ids, tokens, notes=_unseen(tokenizer, text), tokenize_ns=took, midway=True)


def _from_ids(tokenizer: Tokenizer, ids: Sequence[int]) -> Prompt:
    text, encoded = spans_of(tokenizer, ids)
    tokens = _tokens(tokenizer, encoded, (Owned(0, len(text), -1),), {-1: "raw"})
    return Prompt(text, tuple(ids), tokens, midway=True)


def _from_messages(chat: Chat, messages: Numbered) -> Prompt:
    """The prompt for these messages, whatever its length."""
    began = time.perf_counter_ns()
    laid = chat.lay_out(messages)
    rendered = time.perf_counter_ns()
    encoded = chat.tokenizer.encoder(chat.template).encode(laid.layout.text, laid.layout.controls)
    drawn = {at: message.token_ids for at, message in messages if message.token_ids and message.role == "assistant"}
    if drawn:
        control = frozenset(chat.control.ids.values())
        encoded = as_drawn(chat.tokenizer, laid.layout.text, encoded, laid.layout.owned, drawn, control)
    roles: dict[int, Role] = {at: ROLES.get(message.role, "raw") for at, message in messages}
    tokens = _tokens(chat.tokenizer, encoded, laid.layout.owned, roles)
    tokenized = time.perf_counter_ns()
    facts = chat.tokenizer.facts(chat.template)
    return Prompt(
        text=laid.layout.text,
        ids=tuple(token.id for token in tokens),
        tokens=tokens,
        repairs=laid.repairs,
        stop=facts.stop,
        end_ids=facts.end_ids,
        notes=(*laid.notes, *_unseen(chat.tokenizer, laid.layout.text)),
        template_ns=rendered - began,
        tokenize_ns=tokenized - rendered,
        opens_reasoning=laid.opens_reasoning,
        reasoning=laid.reasoning,
        midway=laid.midway,
    )


def _unseen(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    names = ", ".join(f"U+{ord(character):04X}" for character in tokenizer.unseen(text))
    return (f"The model's vocabulary has no bytes for {names}, so it does not see them as they are.",) if names else ()


def _fitted(chat: Chat, messages: Numbered, window: int, reserve: int) -> Prompt:
    """Leave out as few oldest turns as makes the rest fit; a prompt only grows with its turns, so bisect."""
    kept, groups = _grouped(messages)

    def without(count: int) -> Prompt:
        rest = {at for group in groups[count:] for at, _ in group} | {at for at, _ in kept}
        prompt = _from_messages(chat, tuple(pair for pair in messages if pair[0] in rest))
        left_out = tuple(at for at, _ in messages if at not in rest)
        return dataclasses.replace(prompt, left_out=left_out, notes=(*prompt.notes, *_outside(left_out, window)))

    low, high = 1, len(groups) - 1
    best = without(max(high, 0))
    while low < high:
        middle = (low + high) // 2
        prompt = without(middle)
        if len(prompt.ids) <= window - reserve:
            high, best = middle, prompt
        else:
            low = middle + 1
    room = window - len(best.ids)
    if 0 < room < reserve:
        best = dataclasses.replace(best, notes=(*best.notes, f"Only {room} tokens of the window are left to reply."))
    return _within(best, window, "The newest message with its template")


def _grouped(messages: Numbered) -> tuple[Numbered, list[Numbered]]:
    """System messages, which stay, and turns: each user message with what follows it. The last turn stays too."""
    kept = tuple(pair for pair in messages if pair[1].role == "system")
    groups: list[Numbered] = []
    for pair in messages:
        if pair[1].role == "system":
            continue
        if pair[1].role == "user" or not groups:
            groups.append((pair,))
        else:
            groups[-1] = (*groups[-1], pair)
    return kept, groups


def _outside(left_out: Sequence[int], window: int) -> tuple[str, ...]:
    if not left_out:
        return ()
    count = len(left_out)
    return (f"{count} older message{'s are' if count > 1 else ' is'} outside the window of {window} tokens.",)


def _within(prompt: Prompt, window: int, what: str) -> Prompt:
    if window and len(prompt.ids) >= window:
        raise TooLongError(
            f"{what} has {len(prompt.ids):,} tokens, and the window of {window:,} must also hold the reply.",
            "Shorten it, or load the model with a larger window.",
        )
    return prompt


def _tokens(
    tokenizer: Tokenizer, encoded: Sequence[Encoded], owned: Sequence[Owned], roles: Mapping[int, Role]
) -> tuple[PromptToken, ...]:
    """Tokens with their owners. One that crosses a border is the message's that it reaches into."""
    tokens: list[PromptToken] = []
    at = 0
    for token in encoded:
        while at < len(owned) and owned[at].end <= token.start:
            at += 1
        own = at < len(owned) and not token.control and owned[at].start < max(token.end, token.start + 1)
        message = owned[at].message if own else -1
        tokens.append(
            PromptToken(
                id=token.id,
                piece=tokenizer.piece(token.id),
                role=roles[message] if own else "control",
                control=token.control,
                message=message,
                start=token.start,
                end=token.end,
                bytes=tokenizer.token_bytes(token.id),
            )
        )
    return tuple(tokens)
