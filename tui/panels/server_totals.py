"""What a server tells of itself, as rows: its load and its cache. Each says that the server told it."""

from __future__ import annotations

from ..state import EngineState
from .glyphs import bar, sparkline
from .line import Line, wrap
from .units import count, percent, rate

_NAME = 10  # cells
_NOT_TOLD = "not told"


def load_rows(state: EngineState, width: int) -> list[Line]:
    """Requests running and waiting, over time, and what went through."""
    load = state.load
    newest = load.newest
    if newest is None:
        return _none_yet(state, width)
    rows = [Line("told by the server, once a second while this is open", "dim")]
    for name, field in (("running", "num_requests_running"), ("waiting", "num_requests_waiting")):
        rows.append(_series(name, field, state, width))
    ours = sum(1 for request in state.requests.values() if not request.done)
    rows.append(Line().fit("of these", _NAME, "dim").add(f"{count(ours)} asked from here"))
    for name, field in (("read", "prompt_tokens"), ("written", "generation_tokens")):
        per_second = load.rate(field)
        line = _number(name, field, state)
        if field not in newest.untold:
            line.add(" tokens" + ("" if per_second is None else f", {rate(per_second)} a second"))
        rows.append(line)
    rows.append(_number("preempted", "num_preemptions", state))
    if "requests_finished" not in newest.untold:
        rows.append(_number("finished", "requests_finished", state))
    return [*rows, Line()]


def cache_rows(state: EngineState, width: int) -> list[Line]:
    """How full the KV cache is, and what its prefixes spared."""
    newest = state.load.newest
    if newest is None:
        return _none_yet(state, width)
    rows = [Line("told by the server, once a second while this is open", "dim")]
    if "kv_cache_usage_perc" in newest.untold:
        rows.append(Line().fit("KV in use", _NAME, "dim").add(_NOT_TOLD, "dim"))
    else:
        share = newest.kv_cache_usage_perc
        line = Line().fit("KV in use", _NAME, "dim").fit(percent(share), 8)
        room = max(0, width - line.width)
        rows.append(line.add(bar(share, room), "user"))
        rows.append(_series("over time", "kv_cache_usage_perc", state, width))
    if "kv_blocks" not in newest.untold and "kv_block_tokens" not in newest.untold:
        tokens = newest.kv_blocks * newest.kv_block_tokens
        of = f"{count(newest.kv_blocks)} blocks of {count(newest.kv_block_tokens)} tokens, {count(tokens)} in all"
        rows.append(Line().fit("size", _NAME, "dim").add(of))
    if {"prefix_cache_queries", "prefix_cache_hits"} & set(newest.untold):
        rows.append(Line().fit("prefix hits", _NAME + 2, "dim").add(_NOT_TOLD, "dim"))
    else:
        asked, hit = newest.prefix_cache_queries, newest.prefix_cache_hits
        share = f" ({percent(hit / asked)})" if asked else ""
        rows.append(Line().fit("prefix hits", _NAME + 2, "dim").add(f"{count(hit)} of {count(asked)} tokens{share}"))
    rows.append(_number("preempted", "num_preemptions", state))
    return [*rows, Line()]


def _none_yet(state: EngineState, width: int) -> list[Line]:
    reason = state.lacks("metrics") or "The server's totals are being asked for."
    return [*(Line(part, "dim") for part in wrap(reason, width)), Line()]


def _number(name: str, field: str, state: EngineState) -> Line:
    newest = state.load.newest
    line = Line().fit(name, _NAME, "dim")
    if newest is None or field in newest.untold:
        return line.add(_NOT_TOLD, "dim")
    return line.add(count(getattr(newest, field)))


def _series(name: str, field: str, state: EngineState, width: int) -> Line:
    """The newest value in figures, and every reading as a height."""
    values = state.load.history(field)
    line = Line().fit(name, _NAME, "dim")
    if not values:
        return line.add(_NOT_TOLD, "dim")
    share = field == "kv_cache_usage_perc"
    line.fit(percent(values[-1]) if share else count(values[-1]), 8)
    return line.add(sparkline(values, max(0, width - line.width), 1.0 if share else None), "user")
