"""The prefix index: which page holds the keys and values of which tokens after which prefix. Pure Python.

A full page is named by sha256(name of the page before it + its token ids), so that a name stands for the entire
prefix; the first page follows a root made from the model's identity. This is the hash-chained scheme of vLLM's
automatic prefix caching (docs.vllm.ai, design/prefix_caching), with a cryptographic hash.
"""

from __future__ import annotations

import array
import hashlib


class PrefixIndex:
    """Names of full pages, and the page that each name is found in. `page_size` is in tokens."""

    def __init__(self, page_size: int, salt: bytes) -> None:
        self.page_size = page_size
        self._root = hashlib.sha256(salt).digest()
        self._pages: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def name(self, chain: list[bytes], tokens: list[int], index: int) -> bytes:
        """The name of the `index`-th page of `tokens`, which must fill it.

        `chain` remembers the names made so far for these tokens; the missing ones are added, so that each page of
        a sequence is hashed once in its life.
        """
        size = self.page_size
        while len(chain) <= index:
            start = len(chain) * size
            content = array.array("q", tokens[start : start + size]).tobytes()
            chain.append(hashlib.sha256((chain[-1] if chain else self._root) + content).digest())
        return chain[index]

    def restart(self, salt: bytes) -> None:
        """Name the first pages by another salt; names that exist stay, with those made after them."""
        self._root = hashlib.sha256(salt).digest()

    def find(self, name: bytes) -> int | None:
        return self._pages.get(name)

    def add(self, name: bytes, page: int) -> bool:
        """Index `page`, unless another page already has this name: the first one stays."""
        return self._pages.setdefault(name, page) == page

    def remove(self, name: bytes) -> None:
        del self._pages[name]

    def items(self) -> list[tuple[bytes, int]]:
        return list(self._pages.items())
