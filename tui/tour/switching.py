"""The switches before, in and after a run. Not every model can have each of them set. No Textual."""

from __future__ import annotations

from ...engine.protocol import Configure, ModelCard, Switches

_OF_PAGES = ("prefix_cache", "token_budget", "max_lanes")
_ALL = ("policy", "kv_reuse", "delivery", "inspect", *_OF_PAGES)


def settable(card: ModelCard, **switches: object) -> Configure:
    """What of these the model can have set: it may not be served from pages, or not by this machine."""
    if "switches" not in card.capabilities:
        switches = {name: switches[name] for name in ("delivery", "inspect")}
    elif card.attention != "paged":
        switches = {name: value for name, value in switches.items() if name not in _OF_PAGES}
    return Configure(**switches)  # pyright: ignore[reportArgumentType]


def beginning(card: ModelCard) -> Configure:
    """How every run begins: everything on but the prefix cache."""
    return settable(
        card,
        policy="continuous",
        prefix_cache=False,
        kv_reuse=True,
        delivery="streamed",
        inspect=True,
        token_budget=card.token_budget,
        max_lanes=card.max_lanes,
    )


def as_found(card: ModelCard, found: Switches) -> Configure:
    """What gives the switches back as they were."""
    return settable(card, **{name: getattr(found, name) for name in _ALL})
