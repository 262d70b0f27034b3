"""What a reply cost, in numbers, from the engine's own time stamps."""

from __future__ import annotations

from itertools import pairwise

from ...engine.protocol import Finished, ModelCard


def percentile(values: list[float], share: float) -> float:
    """Nearest-rank percentile; `values` must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def lines(card: ModelCard, opened_s: float, finished: list[Finished]) -> list[str]:
    """What `--stats` prints: the load, then each sample. `opened_s` is from the command to the ready model."""
    told = [f"server        {card.attention_note}"] if card.attention == "remote" else []
    told += [f"load          {card.load_ns / 1e9:.2f} s in the engine, {opened_s:.2f} s in all"]
    for end in finished:
        told += _sample(end, several=len(finished) > 1)
    return told


def _sample(end: Finished, several: bool) -> list[str]:
    line = end.timeline
    told = [f"sample {end.sample + 1}"] if several else []
    if not end.counted:
        told.append("prompt        the server did not report its token counts")
    share = f" ({end.cached_tokens / end.prompt_tokens:.0%})" if end.prompt_tokens else ""
    if end.prompt_tokens:
        told.append(f"prompt        {end.prompt_tokens} tokens, {end.cached_tokens}{share} from the prefix cache")
    computed = end.prompt_tokens - end.cached_tokens
    if line.first_token_ns:
        told.append(f"TTFT          {(line.first_token_ns - line.submitted_ns) / 1e6:.1f} ms")
        began = line.prefill[0][2] if line.prefill else line.scheduled_ns
        if began:  # a server does not tell when it began
            told.append(f"prompt speed  {_rate(computed, line.first_token_ns - began)}")
    gaps = [(after - before) / 1e6 for before, after in pairwise(line.tokens_ns)]
    if gaps:
        told.append(f"ITL           {percentile(gaps, 0.5):.1f} ms p50, {percentile(gaps, 0.95):.1f} ms p95")
        told.append(f"reply speed   {_rate(len(gaps), line.tokens_ns[-1] - line.tokens_ns[0])}")
    told += [f"server        {name}: {words}" for name, words in end.told.items()]
    unit = "tokens" if end.counted else "pieces"
    ending = f"{end.generated_tokens} {unit}, {end.reason}" + (f": {end.detail}" if end.detail else "")
    told.append(f"reply         {ending}")
    if end.preemptions:
        told.append(f"preempted     {end.preemptions} times")
    return told


def _rate(tokens: int, duration_ns: int) -> str:
    return f"{tokens / (duration_ns / 1e9):.1f} tok/s" if duration_ns > 0 else "not measurable"
