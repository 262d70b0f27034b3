"""How much the screen remembers. One place, so that a test can make everything small."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Upper bounds of everything an `EngineState` keeps; each is a count."""

    requests: int = 256
    samples: int = 64  # of one request
    tokens: int = 262_144  # prompt and generated, over all requests
    candidates: int = 16_384  # generated tokens that still have their candidates
    characters: int = 4_194_304  # of one sample's text
    chunks: int = 1_024  # prefill chunks of one sample
    iterations: int = 2_048  # in the lane history
    finishes: int = 512  # finish times compared between the policies
    measurements: int = 2_048  # of each timing
    pages: int = 1_048_576  # where no model card tells the pool's size
    details: int = 64  # answers to Inspect(page)
    flashes: int = 4_096
