"""Branches of a sequence: what a fork keeps of its source, and how it gets the source's pages. Pure Python."""

from __future__ import annotations

from .errors import SettingError
from .pages import PagePool
from .plan import PageCopy
from .sequence import Sequence


def branch(
    source: Sequence, at: int, request: str, sample: int, forced: int | None, max_length: int, page_size: int
) -> Sequence:
    """A sequence of the source's prompt, its first `at` generated tokens and `forced`; it has no pages yet.

    Raises `SettingError` if `at` is out of range.
    """
    generated = len(source) - source.prompt_length
    if not 0 <= at <= generated:
        raise SettingError("at", f"at must be from 0 to {generated}, the tokens generated so far, not {at}.")
    keep = source.prompt_length + at
    tokens = source.tokens[:keep] + ([] if forced is None else [forced])
    fork = Sequence(request, sample, tokens, source.prompt_length, max_length)
    fork.chain = source.chain[: keep // page_size]
    return fork


def borrow(pool: PagePool, source: Sequence, fork: Sequence) -> PageCopy | None:
    """Share the full pages of what `fork` keeps of `source`, and copy the partial one.

    Only what has been computed and still exists, and never the fork's last token: it may differ from the source's,
    and its logits are wanted. The pages of a running source are there; those of a finished one are revived if nobody
    has been given them since. Sets the fork's `block_table` and `computed`. Returns the copy to be made before the
    fork's first forward pass, if there is one: until then the fork holds a reference to the copy's source too.
    """
    usable = min(source.computed, len(fork) - 1)
    held = source.remains or [(page, pool.generation(page)) for page in source.block_table]
    full, rest = divmod(usable, pool.page_size)
    for page, generation in held[:full]:
        if not pool.revive(page, generation, fork.key):
            break
        fork.block_table.append(page)
    fork.computed = len(fork.block_table) * pool.page_size
    if not rest or len(fork.block_table) < full:
        return None
    page, generation = held[full]
    if not pool.revive(page, generation, fork.key):
        return None
    if not pool.available:
        pool.release(page, fork.key)
        return None
    target = pool.allocate(fork.key, fork.computed)
    fork.block_table.append(target)
    fork.computed += rest
    return PageCopy(page, target, rest)
