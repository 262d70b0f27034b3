"""What can go wrong on a tour."""

from __future__ import annotations

from ...engine.errors import CutawayError


class ChapterError(CutawayError):
    """A chapter's data or script that can't be used; the message names the file and the field."""

    kind = "chapter"


class StageError(CutawayError):
    """A run that the engine did not carry out."""

    kind = "stage"


class NotHereError(StageError):
    """A chapter that the loaded model can't show, and why."""

    kind = "not-here"


class StoppedError(StageError):
    """The engine went away in the middle of a run."""

    kind = "died"
