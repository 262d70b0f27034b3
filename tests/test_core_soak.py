"""Ten thousand random requests through the engine on a tiny model: nothing lost, memory flat."""

from __future__ import annotations

import random
from pathlib import Path

import psutil
import pytest
from cutaway.engine.protocol import Abort, ClearCache, Configure, Finished, Fork, Rejected, SamplingSettings

from . import engine_driver, tiny_folder, tiny_models

REQUESTS = 10_000
AT_ONCE = 24
GROWTH = 48 * 2**20  # bytes the process may grow between the first tenth and the end


def random_settings(draw: random.Random) -> SamplingSettings:
    return SamplingSettings(
        temperature=draw.choice([0.0, 0.7, 3.0]),
        top_k=draw.choice([0, 0, 5]),
        top_p=draw.choice([1.0, 0.9]),
        min_p=draw.choice([0.0, 0.05]),
        repetition_penalty=draw.choice([1.0, 1.0, 1.2]),
        seed=draw.choice([None, draw.randrange(1000)]),
        max_tokens=draw.randint(1, 12),
        stop=draw.choice([(), (), ("e", "th")]),
        ignore_eos=draw.random() < 0.5,
        candidates=draw.choice([0, 4]),
    )


@pytest.mark.timeout(900)
def test_ten_thousand_random_requests_lose_nothing_and_leak_nothing(tmp_path: Path) -> None:
    draw = random.Random(1)
    folder = tiny_folder.make(tmp_path / "tiny", num_hidden_layers=1)
    driver = engine_driver.start(folder, pages=40, window=160, token_budget=96)
    process, small = psutil.Process(), 0
    prefixes = [[draw.randrange(3, tiny_models.VOCABULARY) for _ in range(48)] for _ in range(4)]
    sent = ended = 0
    open_requests: set[str] = set()
    endings: set[tuple[str, int]] = set()
    refused: set[str] = set()
    while ended < REQUESTS:
        while sent < REQUESTS and len(open_requests) < AT_ONCE:
            name, sent = f"r{sent}", sent + 1
            prompt = draw.choice(prefixes)[: draw.randrange(48)] + [draw.randrange(3, 300)] * draw.randint(1, 30)
            if draw.random() < 0.01:
                prompt = [5] * 700  # can never fit
            open_requests.add(name)
            if draw.random() < 0.05 and driver.core.finished:
                driver.send(Fork(name, next(reversed(driver.core.finished)), at=0, settings=random_settings(draw)))
            else:
                driver.submit(name, prompt, random_settings(draw), samples=draw.choice([1, 1, 1, 2]))
        if draw.random() < 0.05:
            driver.send(Abort(draw.choice(sorted(open_requests))))
        if draw.random() < 0.01:
            driver.send(Configure(policy=draw.choice(["continuous", "static"]), kv_reuse=draw.random() < 0.8))
            driver.send(Configure(prefix_cache=draw.random() < 0.8))
        if draw.random() < 0.002:
            driver.send(ClearCache())
        driver.core.step()
        for event in driver.events:
            if isinstance(event, Rejected):
                refused.add(event.request)
            elif isinstance(event, Finished):
                assert event.reason in ("end", "stop", "length", "aborted"), event.detail
                key = (event.request, event.sample)
                assert key not in endings, "a sample ended twice"
                endings.add(key)
        for name in [name for name in open_requests if name not in driver.core.requests]:
            open_requests.remove(name)
            assert (name, 0) in endings or name in refused
            ended += 1
        driver.events.clear()
        if draw.random() < 0.02:
            driver.core.scheduler.check()
        if not small and ended > REQUESTS // 10:
            small = process.memory_info().rss
    driver.core.idle_check()
    assert not open_requests
    assert driver.core.scheduler.pool.totals().used == 0
    assert not driver.core.requests
    assert process.memory_info().rss - small < GROWTH
