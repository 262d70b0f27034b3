"""Text to measure with: plain words, about a token each, no two prompts with the same beginning."""

from __future__ import annotations

import random

_TEXT = (
    "about after again air all along also always and animal another answer any around ask away back because been "
    "before began being below between big book both boy came can car carry change children city close come could "
    "country cut day different does done door down each early earth eat end enough even every example eye face family "
    "far father feet few find first follow food found four friend from girl give good great group grow had hand hard "
    "head hear help here high home house how idea important into just keep kind know land large last late learn leave "
    "left letter life light like line list little live long look made make man many may mean men might mile more "
    "morning most mother mountain move much music must name near need never new next night now number off often old "
    "once one only open other our out over own page paper part people picture place plant play point put question "
    "quick read really right river run said same saw say school sea second see seem sentence set she should show side "
    "small some song soon sound spell stand start state still stop story study such sun take talk tell than that them "
    "then there thing think thought three through time together too took tree try turn two under until use very walk "
    "want was watch water way well went were what when where which while white who why will with without word work "
    "world would write year you young your"
)
_WORDS = tuple(_TEXT.split())


def words(count: int, seed: int) -> str:
    """`count` words, 1 or more, the same for the same seed."""
    draw = random.Random(seed)
    return " ".join(draw.choice(_WORDS) for _ in range(max(1, count)))


class Prompts:
    """Prompts of so many tokens. How many words that takes is learnt from what the engine counted."""

    def __init__(self) -> None:
        self.tokens_a_word = 1.0
        self._made = 0

    def learn(self, words_sent: int, prompt_tokens: int) -> None:
        """The engine counted this many tokens in that many words."""
        if words_sent and prompt_tokens:
            self.tokens_a_word = prompt_tokens / words_sent

    def make(self, tokens: int) -> str:
        """A prompt of about `tokens` tokens that was never made before."""
        self._made += 1
        return words(round(tokens / self.tokens_a_word), self._made)
