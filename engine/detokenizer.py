"""Text from tokens, one token at a time: what was shown never changes, and half a character is never shown."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

_Utf8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """Decodes a stream of ids; all deltas together are `tokenizer.decode` of all ids.

    At most three bytes are held, those of a character that is not complete; bytes that can't become one are shown
    as U+FFFD. With `midway` the text goes on a text before it, so a space that the tokenizer would put at the start
    of a text stays. Control tokens give no text, except those whose ids are in `shown`.
    """

    def __init__(self, tokenizer: Tokenizer, *, midway: bool = False, shown: frozenset[int] = frozenset()) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids - shown
        self._utf8 = _Utf8("replace")
        self._strip = b"" if midway or tokenizer.spelling is None else tokenizer.spelling.strip_start
        self._window = None if tokenizer.spelling is not None else _Window(tokenizer)

    def push(self, token: int) -> str:
        """The text that `token` makes certain, which may be empty."""
        if token in self._skipped:
            return ""
        if self._window is not None:
            return self._window.push(token)
        data = self._tokenizer.token_bytes(token)
        if self._strip and data:
            data, self._strip = data.removeprefix(self._strip), b""
        return self._utf8.decode(data)

    def flush(self) -> str:
        """What is held, at the end: an unfinished character as one U+FFFD."""
        if self._window is not None:
            return self._window.flush()
        return self._utf8.decode(b"", final=True)


class _Window:
    """For tokenizers whose tokens have no bytes of their own: decode a few last tokens with and without the new ones.

    The difference is new text. The tokens before it are decoded along because a token's text may depend on the one
    before.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = 0  # how many of the ids have their text shown

    def push(self, token: int) -> str:
        self._ids.append(token)
        before, after = self._decode(self._ids[: self._shown]), self._decode(self._ids)
        if after.endswith("\ufffd") and len(self._ids) - self._shown < 4:
            return ""
        if len(after) > len(before):
            self._ids = self._ids[self._shown :]
            self._shown = len(self._ids)
        return after[len(before) :]

    def flush(self) -> str:
        before, after = self._decode(self._ids[: self._shown]), self._decode(self._ids)
        self._ids, self._shown = [], 0
        return after[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.backend.decode(ids, skip_special_tokens=False)
