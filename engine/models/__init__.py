"""Finding, fetching, checking and converting models. Nothing here imports torch."""

from .local import LocalModel
from .locate import resolve

__all__ = ["LocalModel", "resolve"]
