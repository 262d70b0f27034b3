"""What a benchmark makes of time stamps, and how a run is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from cutaway.engine.protocol import Finished, ModelCard, Timeline
from cutaway.tui.bench import measures, stored, table
from cutaway.tui.bench.measures import FollowUpResult, Report, Served, Spread, StreamsResult
from cutaway.tui.bench.prompts import Prompts
from hypothesis import given
from hypothesis import strategies as st

MS = 1_000_000
CARD = ModelCard(
    name="m", identity="i", architecture="a", parameters=1, weight_bytes=200, precision="int8", device="cpu",
    threads=2, window=100, vocabulary=9, layers=1, page_size=16, pages=4, page_bytes=160, max_lanes=4,
    token_budget=16, attention="paged", step_bytes=1000,
)  # fmt: skip


def request(first_ms: int, gap_ms: int, tokens: int, prompt: int = 100, cached: int = 0) -> Served:
    stamps = tuple((first_ms + gap_ms * n) * MS for n in range(tokens))
    return Served(prompt, cached, 0, 0, 0, stamps)


def test_rates_of_one_request() -> None:
    one = request(first_ms=50, gap_ms=10, tokens=11)
    assert one.ttft_ns == 50 * MS
    assert one.gaps_ns == [10 * MS] * 10
    assert measures.prefill_rate([one]) == pytest.approx(2000)
    assert measures.decode_rate([one]) == pytest.approx(100)
    assert measures.own_rate(one) == pytest.approx(100)


def test_what_the_prefix_cache_spared_is_not_counted_as_computed() -> None:
    assert measures.prefill_rate([request(50, 10, 2, prompt=100, cached=60)]) == pytest.approx(800)


def test_decode_counts_only_while_all_requests_write() -> None:
    early, late = request(0, 10, 21), request(100, 10, 21)  # both write from 100 to 200 ms
    assert measures.decode_rate([early, late]) == pytest.approx(200)


def test_requests_that_never_write_together_are_measured_over_the_whole_time() -> None:
    first, second = request(0, 10, 11), request(500, 10, 11)
    assert measures.decode_rate([first, second]) == pytest.approx(21 / 0.6)


@given(st.integers(1, 8), st.integers(1, 50), st.integers(2, 40))
def test_equal_streams_write_as_many_times_faster_as_there_are(streams: int, gap: int, tokens: int) -> None:
    one = request(7, gap, tokens)
    assert measures.decode_rate([one] * streams) == pytest.approx(streams * measures.own_rate(one))


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_percentiles_are_values_and_in_order(values: list[float]) -> None:
    spread = Spread.of(values)
    assert spread.p5 <= spread.p50 <= spread.p95
    assert {spread.p5, spread.p50, spread.p95} <= {round(value, 3) for value in values}


def test_the_limit_is_weights_once_a_step_and_every_streams_keys_and_values() -> None:
    one = request(50, 10, 20)  # 110 positions in the middle of its reply, 10 bytes each
    assert measures.limit(CARD, 21_000, [one]) == pytest.approx(21_000 / (1000 + 1100))
    assert measures.limit(CARD, 21_000, [one, one]) == pytest.approx(2 * 21_000 / (1000 + 2200))
    assert measures.limit(CARD, 0, [one]) == 0
    assert measures.limit(msgspec.structs.replace(CARD, step_bytes=0), 21_000, [one]) == 0


def test_an_engine_that_stamps_nothing_is_measured_by_what_arrives() -> None:
    end = Finished("r", 0, "length", prompt_tokens=5, timeline=Timeline())
    seen = measures.served(end, sent_ns=10, arrivals_ns=[30, 50])
    assert (seen.ttft_ns, seen.gaps_ns) == (20, [20])


def test_no_two_prompts_begin_alike_and_their_length_is_learnt() -> None:
    prompts = Prompts()
    prompts.learn(64, 96)
    made = [prompts.make(300) for _ in range(20)]
    assert {len(text.split()) for text in made} == {200}
    assert len({" ".join(text.split()[:8]) for text in made}) == 20


def spread(value: float) -> Spread:
    return Spread(value, value, value)


def report(decode: float = 200.0, **changes: object) -> Report:
    result = StreamsResult(1, spread(1000), spread(decode), spread(decode), spread(50), spread(5), 400.0)
    made = Report(
        "2026-01-02T03:04:05+00:00", "0.1", "m", "id", "cpu", "int8", "kernel", 2, 9.0, 1000, 10, 40_000_000_000,
        512, 64, 3, (result,), FollowUpResult(2000, 1984, spread(60), spread(1200)),
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def test_the_table_tells_shares_and_changes() -> None:
    text = "\n".join(table.lines(report(220.0), report(200.0)))
    assert "55%" in text
    assert "20.0 times sooner" in text
    assert "2026-01-02 03:04" in text
    assert "decode +10%" in text
    assert "TTFT +0%" in text


def test_what_is_not_known_is_not_made_up() -> None:
    silent = report(memory_bytes_per_s=0, streams=(msgspec.structs.replace(report().streams[0], limit=0.0),))
    text = "\n".join(table.lines(silent, None))
    assert "not known" in text
    assert "–" in text
    assert "%" not in text


@pytest.mark.parametrize("streams", [1, 16, 1024])
def test_every_line_fits_eighty_cells(streams: int) -> None:
    big = StreamsResult(streams, *[spread(123456.7)] * 5, limit=300000.0, preemptions=12)
    lines = table.lines(report(streams=(big,)), report(streams=(big,), threads=1))
    assert all(len(line) <= 80 for line in lines), lines


def test_a_run_is_kept_whole_and_found_again() -> None:
    file = stored.path(report(), "")
    assert stored.load(file) is None
    stored.save(report(), file)
    assert stored.load(file) == report()
    assert [f.name for f in file.parent.iterdir()] == [file.name]


def test_only_the_like_is_compared() -> None:
    same = stored.path(report(), "")
    assert stored.path(report(decode=1.0, threads=1, kernel="other", made="later"), "") == same
    for other in (report(precision="float32"), report(identity="x"), report(new_tokens=1), report(device="cuda")):
        assert stored.path(other, "") != same
    assert stored.path(report(), "ssh box cutaway engine") != same


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"format": 1}', b"null"])
def test_a_damaged_run_counts_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(content)
    assert stored.load(file) is None


def test_a_run_of_another_format_counts_as_none(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(msgspec.json.encode(report(format=2)))
    assert stored.load(file) is None
