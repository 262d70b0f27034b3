"""Finding control tokens in text, and encoding text so that only chosen places become control tokens.

A tokenizer parses its added tokens wherever their text occurs, so `<|im_end|>` typed by a user would end the turn.
Here the caller says which places are control tokens; everywhere else the same text is ordinary text.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tokenizers

# Characters of the private use planes: no vocabulary and no template means anything by them.
PRIVATE_USE = range(0xF0000, 0xFFFFE)


def unused_characters(count: int, texts: Sequence[str]) -> list[str]:
    """`count` different private-use characters that occur in none of `texts`."""
    free = (chr(code) for code in PRIVATE_USE if not any(chr(code) in text for text in texts))
    return [next(free) for _ in range(count)]


class ControlTokens:
    """The control tokens of one tokenizer under one template, by their text."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = dict(ids)
        self._lengths: dict[str, list[int]] = {}
        for text in self.ids:
            lengths = self._lengths.setdefault(text[0], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        for lengths in self._lengths.values():
            lengths.sort(reverse=True)
        firsts = "".join(map(re.escape, self._lengths))
        self._first = re.compile(f"[{firsts}]") if firsts else re.compile("(?!)")
        self._heads = {text[:size] for text in self.ids for size in range(1, len(text))}
        self._tails = {text[-size:] for text in self.ids for size in range(1, len(text))}
        self._reach = max(map(len, self._heads), default=0)

    def starts(self, text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Every place where a control token begins, overlapping ones too, each with its longest match's end."""
        end = len(text) if end is None else end
        for match in self._first.finditer(text, start, end):
            at = match.start()
            for length in self._lengths[match[0]]:
                if at + length <= end and text[at : at + length] in self.ids:
                    yield at, at + length
                    break

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """Spans of control tokens in `text[start:end]`: leftmost first, then longest, as tokenizers match them."""
        found: list[tuple[int, int]] = []
        for begin, stop in self.starts(text, start, end):
            if not found or begin >= found[-1][1]:
                found.append((begin, stop))
        return found

    def guard(self, text: str, mark: str) -> str:
        """`text` with `mark` after the first character of every place that is, or could become, a control token.

        That includes the beginning of one at the end of `text` and the end of one at its start, which the text
        around could complete.
        """
        places = {begin + 1 for begin, _ in self.starts(text)}
        sizes = range(1, min(self._reach, len(text)) + 1)
        places |= {len(text) - size + 1 for size in sizes if text[-size:] in self._heads}
        if any(text[:size] in self._tails for size in sizes):
            places.add(1)
        cuts = [0, *sorted(places), len(text)]
        return mark.join(text[a:b] for a, b in itertools.pairwise(cuts)) if places else text


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """One token and the characters of the text it came from: `text[start:end]`."""

    id: int
    start: int
    end: int
    control: bool = False


class Encoder:
    """Encodes text in one pass of the model's own pipeline, with control tokens only where the caller says.

    A second `tokenizers.Tokenizer` shares the model, normalizer and pre-tokenizer of the first, but knows each
    control token by a private-use stand-in instead of its text. Putting stand-ins where the control tokens are
    keeps everything else as in a one-step encoding: prefix spaces, stripping around tokens, normalisation.
    """

    def __init__(self, backend: tokenizers.Tokenizer, controls: ControlTokens) -> None:
        self._backend = backend
        self._controls = controls
        self._added = {token.content: token for token in backend.get_added_tokens_decoder().values()}
        self._by_mark: dict[str, _StandIns] = {}

    def encode(self, text: str, controls: Sequence[tuple[int, int]] = ()) -> list[Encoded]:
        """Tokens of `text`; `controls` are the spans of it, sorted, that are control tokens.

        No begin-of-text token is added. `text` must be well-formed (no lone surrogates).
        """
        mark = unused_characters(1, [text])[0]
        if mark not in self._by_mark:
            self._by_mark[mark] = _StandIns(self._backend, self._added, self._controls.ids, mark)
        stand_ins = self._by_mark[mark]
        pieces: list[str] = []
        moved: list[tuple[int, int]] = [(0, 0)]  # position in the replaced text, position in `text`
        at = length = 0
        for start, end in controls:
            stand_in = stand_ins.of(text[start:end])
            pieces += [text[at:start], stand_in]
            length += start - at
            moved += [(length, start), (length + len(stand_in), end)]
            length += len(stand_in)
            at = end
        pieces.append(text[at:])
        return stand_ins.encode("".join(pieces), moved)


class _StandIns:
    """The tokenizer without control tokens' texts, for one mark character that the text does not hold."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        added: Mapping[str, tokenizers.AddedToken],
        controls: Mapping[str, int],
        mark: str,
    ) -> None:
        import tokenizers

        self._added = added
        self._controls = controls
        self._mark = mark
        self._tokenizer = tokenizers.Tokenizer(backend.model)
        if backend.normalizer is not None:
            self._tokenizer.normalizer = backend.normalizer
        if backend.pre_tokenizer is not None:
            self._tokenizer.pre_tokenizer = backend.pre_tokenizer
        ordinary = {text: token for text, token in added.items() if text not in controls}
        self._tokenizer.add_tokens([_copy(token, token.content, token.normalized) for token in ordinary.values()])
        self._ordinary = {_known_id(self._tokenizer, text): (text, _known_id(backend, text)) for text in ordinary}
        self._stand_ins: dict[str, str] = {}
        self._meant: dict[int, int] = {}  # id of a stand-in here: id of the control token

    def of(self, control: str) -> str:
        if control not in self._stand_ins:
            stand_in = f"{self._mark}{len(self._stand_ins):x}{self._mark}"
            token = self._added[control]
            normalizer = self._tokenizer.normalizer
            survives = normalizer is None or stand_in in normalizer.normalize_str(stand_in)
            self._tokenizer.add_tokens([_copy(token, stand_in, token.normalized and survives)])
            self._stand_ins[control] = stand_in
            self._meant[_known_id(self._tokenizer, stand_in)] = self._controls[control]
        return self._stand_ins[control]

    def encode(self, text: str, moved: list[tuple[int, int]]) -> list[Encoded]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        tokens: list[Encoded] = []
        segment = 0
        for token, number, (start, end) in zip(encoding.tokens, encoding.ids, encoding.offsets, strict=True):
            while segment + 1 < len(moved) and moved[segment + 1][0] <= start:
                segment += 1
            # Only a stand-in can hold the mark, since the text does not.
            control = self._mark in token
            first, last = _original(moved, segment, start), _original(moved, segment, end)
            tokens.append(Encoded(self._meant[number] if control else self._plain(token, number), first, last, control))
        return tokens

    def _plain(self, token: str, number: int) -> int:
        text, meant = self._ordinary.get(number, ("", number))
        return meant if text in token else number


def _original(moved: list[tuple[int, int]], segment: int, position: int) -> int:
    """Where a position of the replaced text, at or after `segment`'s start, lies in the original text."""
    while segment + 1 < len(moved) and moved[segment + 1][0] <= position:
        segment += 1
    return moved[segment][1] + position - moved[segment][0]


def _known_id(tokenizer: tokenizers.Tokenizer, text: str) -> int:
    number = tokenizer.token_to_id(text)
    assert number is not None, f"{text!r} was added to the tokenizer"
    return number


def _copy(token: tokenizers.AddedToken, content: str, normalized: bool) -> tokenizers.AddedToken:
    import tokenizers

    return tokenizers.AddedToken(
        content,
        single_word=False if content != token.content else token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=normalized,
        special=False,
    )
