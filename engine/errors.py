"""Errors a user can meet. Each is one clear sentence plus what can be done; `str(error)` is both."""

from __future__ import annotations


class CutawayError(Exception):
    """Base of every error that reaches a user.

    `message` names the file, field or number at fault; `action` says what the user can do; `kind` is a stable word
    for scripts.
    """

    kind = "error"

    def __init__(self, message: str, action: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.action = action

    def __str__(self) -> str:
        return f"{self.message} {self.action}".strip()


class SettingError(CutawayError):
    """A setting outside its range; `field` names it."""

    kind = "setting"

    def __init__(self, field: str, message: str, action: str = "") -> None:
        super().__init__(message, action)
        self.field = field


class ModelError(CutawayError):
    """A model that can't be found, read or served."""

    kind = "model"


class DownloadError(ModelError):
    """A model that can't be fetched."""

    kind = "download"


class KernelsError(CutawayError):
    """Our own kernels can't serve; torch's go on."""

    kind = "kernels"


class LoadCancelled(ModelError):
    """A load that the user stopped."""

    kind = "cancelled"


class PromptError(CutawayError):
    """A prompt that can't be built: no template, or the template refuses the messages."""

    kind = "prompt"


class TooLongError(CutawayError):
    """A request that can never fit the window or the page pool."""

    kind = "too-long"


class OutOfMemory(CutawayError):
    """The device has no room left."""

    kind = "memory"


class ProtocolError(CutawayError):
    """A peer that speaks another protocol, or not at all."""

    kind = "protocol"


class EngineFault(CutawayError):
    """The engine failed in a way that is no user's doing."""

    kind = "fault"


class EngineDied(CutawayError):
    """The engine process ended, or could not be started. `code` is its exit code, negative for a signal."""

    kind = "died"

    def __init__(self, message: str, action: str = "", code: int | None = None) -> None:
        super().__init__(message, action)
        self.code = code


class TraceError(CutawayError):
    """A trace file that can't be read or written."""

    kind = "trace"


class NotANumberError(CutawayError):
    """Logits that are NaN, plus infinity, or all minus infinity; `rows` are the rows of the batch they are in."""

    kind = "numbers"

    def __init__(self, rows: tuple[int, ...], message: str, action: str = "") -> None:
        super().__init__(message, action)
        self.rows = rows


class NoTokenLeftError(SettingError):
    """Settings that together forbid every token; `rows` are the rows of the batch they belong to."""

    def __init__(self, rows: tuple[int, ...], message: str, action: str = "") -> None:
        super().__init__("allowed_ids", message, action)
        self.rows = rows
