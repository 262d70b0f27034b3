"""A server's /metrics, in Prometheus' text format 0.0.4, as far as panels show it."""

from __future__ import annotations

import re

from ..protocol import Metrics

PREFIXES = ("vllm:", "sglang:", "llamacpp:")
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Our name -> the servers' names. Values of several engines behind one server are summed, shares averaged.
_NAMES: dict[str, tuple[str, ...]] = {
    "num_requests_running": ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
    "num_requests_waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "kv_cache_usage_perc": (
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "sglang:token_usage",
        "llamacpp:kv_cache_usage_ratio",
    ),
    "prefix_cache_queries": ("vllm:prefix_cache_queries_total",),
    "prefix_cache_hits": ("vllm:prefix_cache_hits_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"),
    "generation_tokens": (
        "vllm:generation_tokens_total",
        "sglang:generation_tokens_total",
        "llamacpp:tokens_predicted_total",
    ),
    "num_preemptions": ("vllm:num_preemptions_total",),
    "requests_finished": ("vllm:request_success_total", "sglang:num_requests_total"),
    "iterations": ("vllm:iteration_tokens_total_count", "llamacpp:n_decode_total"),
}
_SHARES = {"kv_cache_usage_perc"}
OURS = (*_NAMES, "kv_blocks", "kv_block_tokens")


def parse(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name: labels and value. Lines that are none are passed over."""
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = _LINE.match(line.strip())
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        samples.setdefault(match[1], []).append((dict(_LABEL.findall(match[2] or "")), value))
    return samples


def metrics(text: str, model: str = "") -> Metrics:
    """The totals a server tells, of one model where it names models; `untold` lists the ones that it doesn't."""
    samples = parse(text)
    told: dict[str, float] = {}
    for name, theirs in _NAMES.items():
        values = next((_values(samples[other], model) for other in theirs if other in samples), [])
        if values:
            told[name] = sum(values) / (len(values) if name in _SHARES else 1)
    if "prompt_tokens" in told and "llamacpp:prompt_tokens_cached_total" in samples:
        cached = sum(_values(samples["llamacpp:prompt_tokens_cached_total"], model))
        told |= {"prefix_cache_hits": cached, "prefix_cache_queries": told["prompt_tokens"] + cached}
    for labels, _ in samples.get("vllm:cache_config_info", [])[:1]:
        for name, label in (("kv_blocks", "num_gpu_blocks"), ("kv_block_tokens", "block_size")):
            if labels.get(label, "").isdecimal():
                told[name] = int(labels[label])
    finite = {name: value for name, value in told.items() if value == value and abs(value) != float("inf")}
    numbers = {name: value if name in _SHARES else int(value) for name, value in finite.items()}
    return Metrics(**numbers, untold=tuple(name for name in OURS if name not in numbers))  # pyright: ignore[reportArgumentType]


def _values(samples: list[tuple[dict[str, str], float]], model: str) -> list[float]:
    named = [value for labels, value in samples if not model or labels.get("model_name", model) == model]
    return named or [value for _, value in samples]
