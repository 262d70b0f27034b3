"""An exception, told to a user: one sentence and what to do, the traceback kept for the log. No torch."""

from __future__ import annotations

import traceback

from .errors import CutawayError, EngineFault, OutOfMemory

_MEMORY_PHRASES = ("can't allocate memory", "not enough memory", "out of memory", "cannot allocate memory")


def as_error(error: BaseException, doing: str) -> CutawayError:
    """What to tell about an exception that came up while `doing` ("loading the model")."""
    if isinstance(error, CutawayError):
        return error
    if is_memory(error):
        return OutOfMemory(f"There was not enough memory for {doing}.", "Use fewer pages, or a smaller model.")
    return EngineFault(
        f"{doing[:1].upper()}{doing[1:]} failed with an unexpected {type(error).__name__}.",
        "The engine's log has the details.",
    )


def is_memory(error: BaseException) -> bool:
    """Whether memory ran out. torch says so by types and phrases; its types can't be imported here."""
    if isinstance(error, (MemoryError, OutOfMemory)) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in _MEMORY_PHRASES)


def details(error: BaseException) -> str:
    """The traceback, for the log and `--debug`."""
    return "".join(traceback.format_exception(error))
