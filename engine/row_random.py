"""The random numbers of one request: a function of seed, stream and index, so nothing else can shift them."""

from __future__ import annotations

import hashlib
import secrets


class RowRandom:
    """Uniform numbers in [0, 1): the one at `index` depends on (seed, stream, index) alone.

    Counter-based (keyed BLAKE2b, RFC 7693, of the index; 53 bits): a request draws the same numbers alone and in
    any batch, and after preemption its i-th token still gets the i-th number. `seed` is a whole number from 0 to
    2**64 - 1; without one a random seed is taken. `stream` tells the samples of one request apart.
    """

    __slots__ = ("_key", "index", "seed", "stream")

    def __init__(self, seed: int | None = None, stream: int = 0, index: int = 0) -> None:
        self.seed = secrets.randbits(63) if seed is None else seed
        self.stream = stream
        self.index = index
        self._key = self.seed.to_bytes(8, "little") + stream.to_bytes(8, "little")

    def at(self, index: int) -> float:
        """The number at `index` (from 0), whatever was drawn before."""
        digest = hashlib.blake2b(index.to_bytes(8, "little"), key=self._key, digest_size=8).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

    def next(self) -> float:
        """The number at the present index; moves on by one."""
        number = self.at(self.index)
        self.index += 1
        return number

    def seek(self, index: int) -> None:
        """Go to `index`, the number of tokens generated so far."""
        self.index = index

    def clone(self, stream: int | None = None) -> RowRandom:
        """A generator at the same index that gives the same numbers, or another stream of the same seed."""
        return RowRandom(self.seed, self.stream if stream is None else stream, self.index)
