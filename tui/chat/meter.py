"""How full the window is, and what will happen when it is full: said before it happens. No Textual."""

from __future__ import annotations

import msgspec

SAY_FROM = 0.75  # of the window


class Meter(msgspec.Struct):
    """Tokens of the conversation shown, as the engine last counted them, of the model's window."""

    used: int = 0
    window: int = 0

    @property
    def share(self) -> float:
        return self.used / self.window if self.window else 0.0

    def text(self) -> str:
        """ "ctx 312/8192", with a mark from where the limit comes near."""
        if not self.window:
            return ""
        mark = "▲" if self.share >= SAY_FROM else ""
        return f"{mark}ctx {self.used}/{self.window}"

    def warning(self) -> str:
        """What happens at the limit, once it is near."""
        if self.share < SAY_FROM:
            return ""
        return (
            f"{self.share:.0%} of the window is full. At {self.window:,} tokens a reply is cut, and the oldest "
            "messages are no longer sent; they stay here."
        )
