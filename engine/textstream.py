"""From generated ids to shown text: detokenise, look for stop strings, tell reasoning from answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .detokenizer import Detokenizer
from .reasoning import Pieces, Splitter, Tags
from .stops import StopChecker

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


class TextStream:
    """The text of one sample. End tokens are not pushed: they end the reply and have no text.

    `stop` strings are searched in the text as generated, reasoning included, but not in that of the first
    `min_tokens` tokens. `opens_reasoning` says that the prompt leaves reasoning open, `midway` that the reply goes on
    a text before it (a completion, or a continued answer).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: tuple[str, ...] = (),
        opens_reasoning: bool = False,
        min_tokens: int = 0,
        *,
        midway: bool = False,
        tags: Tags | None = None,
    ) -> None:
        tags = tags or tokenizer.reasoning
        # Some vocabularies have control tokens in their think tags: those must reach the splitter as text.
        written = f"{tags.open}\0{tags.close}\0{tags.answer}"
        shown = frozenset(number for text, number in tokenizer.control.ids.items() if text in written)
        self._detokenizer = Detokenizer(tokenizer, midway=midway, shown=shown)
        self._stops = StopChecker(stop)
        self._splitter = Splitter(tags, opened=opens_reasoning, midway=midway)
        self._unstoppable = min_tokens

    def push(self, token: int) -> tuple[Pieces, str | None]:
        """Pieces to show, as (channel, text), and the stop string that now ends the reply, or None."""
        text = self._detokenizer.push(token)
        if self._unstoppable > 0:
            self._unstoppable -= 1
            return self._splitter.push(self._stops.skip(text)), None
        shown, matched = self._stops.push(text)
        pieces = self._splitter.push(shown)
        if matched is not None:
            pieces += self._splitter.flush()
        return pieces, matched

    def finish(self) -> Pieces:
        """What was held, when the reply ends in any way but a stop string."""
        text, matched = self._stops.push(self._detokenizer.flush())
        if matched is None:
            text += self._stops.flush()
        return self._splitter.push(text) + self._splitter.flush()
