"""Background requests, so that the lanes have company: a built-in set of short and long prompts, or the user's own."""

from __future__ import annotations

from pathlib import Path

from ..engine.errors import CutawayError
from ..engine.protocol import Message, SamplingSettings, Submit

FILE_LIMIT = 1_000_000  # bytes
PROMPTS_LIMIT = 64

_LONG = (
    "Read these notes of a lighthouse keeper and tell what happened in the order it happened. "
    "At four the fog came in from the west and I lit the lamp early. The supply boat was seen at five, off the north "
    "rock, without lights. I sounded the horn every two minutes until my arms were tired. At six the wind turned and "
    "the fog thinned; the boat had anchored behind the reef, and two of her crew were rowing to the landing with the "
    "mail and a new glass for the lamp. We changed the glass by hand before dark. The captain stayed for soup, and "
    "told that the light had been hard to see all week, which explains why they had waited for the horn. "
)
# (label, prompt, most tokens of the reply)
BUILT_IN: tuple[tuple[str, str, int], ...] = (
    ("short 1", "Name three colours.", 16),
    ("long 1", _LONG + "Use at least five sentences.", 96),
    ("short 2", "What is two plus two?", 12),
    ("long 2", _LONG * 2 + "Then give the story a title.", 64),
    ("short 3", "Say good morning in French.", 12),
    ("story", "Tell a story about a fox who learns to sail.", 128),
    ("short 4", "Which is heavier, iron or wood?", 24),
    ("list", "List the planets, one a line, with a fact for each.", 96),
)


class TrafficError(CutawayError):
    """A traffic file that can't be used."""

    kind = "traffic"


def read_prompts(path: Path) -> list[str]:
    """Prompts of a text file: separated by empty lines if it has any, else one a line. Raises `TrafficError`."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise TrafficError(f"The traffic file {path} has more than {FILE_LIMIT:,} bytes.", "Give a smaller one.")
        text = path.read_text(encoding="utf-8")
    except UnicodeError:
        raise TrafficError(f"The traffic file {path} can't be read: it is no UTF-8 text.") from None
    except OSError as error:
        raise TrafficError(f"The traffic file {path} can't be read: {error.strerror or error}.") from None
    text = text.replace("\r\n", "\n").strip("\n")
    parts = text.split("\n\n") if "\n\n" in text else text.split("\n")
    prompts = [part.strip() for part in parts if part.strip()]
    if not prompts:
        raise TrafficError(f"The traffic file {path} has no prompts in it.", "Write one a line.")
    return prompts[:PROMPTS_LIMIT]


def submits(names: list[str], settings: SamplingSettings, prompts: list[str] | None = None) -> list[Submit]:
    """The requests of one round of traffic, named by `names` (at least as many as there are prompts)."""
    rounds = BUILT_IN if prompts is None else [(f"line {i}", p, 64) for i, p in enumerate(prompts, 1)]
    made: list[Submit] = []
    for name, (label, prompt, most) in zip(names, rounds, strict=False):
        own = SamplingSettings(
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            min_p=settings.min_p,
            seed=settings.seed,
            max_tokens=most,
            candidates=settings.candidates,
        )
        made.append(Submit(name, messages=(Message("user", prompt),), settings=own, label=label))
    return made
