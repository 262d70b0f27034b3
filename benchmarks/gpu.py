"""The engine on a GPU: correctness against the CPU, then speed for random weights in the shapes of Qwen3-0.6B and 8B.

    sh benchmarks/gpu.sh            (or, where the package is installed: python benchmarks/gpu.py)
    python benchmarks/gpu.py --device cpu --quick     goes through all of it on small shapes, to try the program itself

Writes its table into `benchmarks/RESULTS.md` after every part, so that what was measured stays if time runs out; a part
that fails is named there and the others go on. The device starts from nothing, so the order is: is it right, then our
speed, then the peer's.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import results_file
import torch
from cutaway.engine import attention, cuda_runner, memory_speed, selftest, served
from cutaway.engine.build import assemble
from cutaway.engine.core import EngineCore
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.protocol import (
    AnyEvent,
    ClearCache,
    Configure,
    Finished,
    Load,
    ModelCard,
    SamplingSettings,
    Step,
    Submit,
)
from cutaway.engine.runner import PagedRunner, Runner, runs_ahead
from cutaway.engine.tokenizer import load_tokenizer

PROMPT, NEW = 128, 128
STREAMS = (1, 8, 64, 256)
COMMON: dict[str, Any] = {
    "vocab_size": 151936,
    "head_dim": 128,
    "num_key_value_heads": 8,
    "rope_theta": 1_000_000.0,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 40960,
}
SHAPES: dict[str, dict[str, Any]] = {
    "Qwen3-0.6B": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "tie_word_embeddings": True,
    },
    "Qwen3-8B": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "tie_word_embeddings": False,
    },
}
SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 4096}  # fmt: skip


@dataclasses.dataclass
class Row:
    """One shape with so many streams, rates in tokens a second; None: not measured."""

    ours: float | None = None
    share: float | None = None  # of what reading memory allows
    waiting: float | None = None  # ours without launching the next step ahead
    peer: float | None = None

    def cells(self) -> list[str]:
        ratio = self.ours / self.peer if self.ours and self.peer else None
        rates = [f"{rate:,.0f}" if rate else "–" for rate in (self.ours, self.waiting, self.peer)]
        share = f"{self.share:.0%}" if self.share else "–"
        return [rates[0], share, rates[1], rates[2], f"{ratio:.1f}" if ratio else "–"]


@dataclasses.dataclass
class Findings:
    """What the section is written from."""

    device: str
    lines: list[str] = dataclasses.field(default_factory=list)
    rows: dict[tuple[str, int], Row] = dataclasses.field(default_factory=dict)

    def row(self, shape: str, streams: int) -> Row:
        return self.rows.setdefault((shape, streams), Row())

    def part(self, name: str, run: Callable[[], None]) -> None:
        """Run one part and write what is known after it; what goes wrong is told, and the next part is run."""
        try:
            run()
        except Exception as error:
            traceback.print_exc()
            told = (str(error).strip().splitlines() or [""])[0][:200]
            self.lines.append(f"{name}: failed, {type(error).__name__}: {told}")
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.write()

    def write(self) -> None:
        head = ["## On a GPU", "", f"{time.strftime('%Y-%m-%d')}, {self.device}, torch {torch.__version__}."]
        head += [f"bfloat16, random weights, {PROMPT} prompt tokens, {NEW} new ones (`benchmarks/gpu.sh`).", ""]
        titles = ["shape, streams", "ours tok/s", "of memory limit", "not launched ahead tok/s"]
        titles += ["transformers `generate` tok/s", "ratio"]
        table = [titles, ["---"] * len(titles)]
        table += [[f"{shape}, {streams}", *row.cells()] for (shape, streams), row in self.rows.items()]
        text = [f"| {' | '.join(cells)} |" for cells in table] if self.rows else []
        whole = "\n".join([*head, *(f"- {line}" for line in self.lines), "", *text])
        results_file.replace_section("gpu", whole)
        print(whole, flush=True)


class Waiting:
    """A runner that does not run ahead: every step is launched when the one before has been drawn."""

    def __init__(self, runner: Runner) -> None:
        self.run, self.use_threads, self.release = runner.run, runner.use_threads, runner.release


def random_model(shape: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Any:
    """A Qwen3 of this shape, its weights drawn on the device."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(**{**COMMON, **shape})
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            torch.manual_seed(0)
            model = Qwen3ForCausalLM(config)
        finally:
            torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)


def tokenizer_for(vocabulary: int) -> Any:
    """A tokenizer with as many tokens as the model, which are all words: nothing here is text."""
    import tokenizers

    with tempfile.TemporaryDirectory() as name:
        words = {f"<{number}>": number for number in range(vocabulary)}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<0>"))
        made.save(str(Path(name) / "tokenizer.json"))
        (Path(name) / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        (Path(name) / "config.json").write_text('{"model_type": "qwen3"}')
        return load_tokenizer(Path(name))


def core_for(model: Any, device: torch.device, lanes: int, events: list[AnyEvent]) -> tuple[EngineCore, ModelCard]:
    """The engine's core over a model that is in memory, as a load would make it."""
    attention.register()
    size = cuda_runner.cuda_attention.PAGE_SIZE
    pages = lanes * (-(-(PROMPT + NEW) // size) + 1)
    load = Load(page_size=size, pages=pages, max_lanes=lanes, window=1024, token_budget=8192)
    made = served.of_model(model, load, device, "bfloat16", None, lambda event: None)
    if made.reason:
        raise RuntimeError(f"not served from pages: {made.reason}")
    card = ModelCard(
        name="random", identity="random", architecture=made.architecture, parameters=made.parameters,
        weight_bytes=made.weight_bytes, precision="bfloat16", device=str(device), threads=1, window=made.window,
        vocabulary=made.vocabulary, layers=made.layers, page_size=size, pages=made.pages, page_bytes=made.page_bytes,
        max_lanes=lanes, token_budget=load.token_budget, attention="paged", kernel=made.kernel,
        step_bytes=made.step_bytes, selftest=made.test,
    )  # fmt: skip
    core = assemble(card, tokenizer_for(made.vocabulary), made.runner, events.append)
    core.start()
    core.handle(Configure(inspect=False))
    return core, card


def ours(core: EngineCore, events: list[AnyEvent], streams: int, new: int) -> tuple[float, list[tuple[int, ...]]]:
    """Decoded tokens a second of so many streams after all have their first token, and what they said."""
    core.handle(ClearCache())
    events.clear()
    settings = SamplingSettings(temperature=0.0, max_tokens=new, ignore_eos=True, candidates=0)
    draw = torch.Generator().manual_seed(streams)
    vocabulary = core.card.vocabulary
    for number in range(streams):
        ids = torch.randint(0, vocabulary, (PROMPT,), generator=draw).tolist()
        core.handle(Submit(f"r{number}", token_ids=tuple(ids), settings=settings))
    while core.has_work:
        core.step()
    ends = sorted((event for event in events if isinstance(event, Finished)), key=lambda end: int(end.request[1:]))
    if [end.generated_tokens for end in ends] != [new] * streams:
        raise RuntimeError(f"not every stream gave {new} tokens: {[(e.reason, e.detail) for e in ends][:3]}")
    times = [end.timeline.tokens_ns for end in ends]
    began, ended = max(stamps[0] for stamps in times), max(stamps[-1] for stamps in times)
    written = sum(stamp > began for stamps in times for stamp in stamps)
    return written / max(1e-9, (ended - began) / 1e9), [end.token_ids for end in ends]


def generate(model: Any, device: torch.device, streams: int, new: int) -> float:
    """The same of transformers' `generate`, by its own attention for the device."""
    ids = torch.randint(0, model.config.vocab_size, (streams, PROMPT), device=device)
    stamps: list[float] = []

    def stamp(rows: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
        if device.type == "cuda":
            torch.cuda.synchronize()
        stamps.append(time.perf_counter())
        return torch.zeros(len(rows), dtype=torch.bool, device=rows.device)

    model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False,
        stopping_criteria=[stamp],
    )  # fmt: skip
    return streams * (len(stamps) - 1) / (stamps[-1] - stamps[0])


def correctness(device: torch.device, findings: Findings) -> None:
    """The same weights on the CPU in float32 and on the device; graphs and steps launched ahead against neither."""
    reference = random_model(SMALL, torch.device("cpu"), torch.float32)
    attention.register()
    reference.set_attn_implementation(attention.NAME)
    wanted = selftest.make_reference(reference)
    model = random_model(SMALL, torch.device("cpu"), torch.float32).to(torch.bfloat16).to(device)
    events: list[AnyEvent] = []
    core, card = core_for(model, device, 8, events)
    findings.lines.append(f"What serves: {card.kernel}.")
    shapes = dict.fromkeys(range(card.layers), (SMALL["num_key_value_heads"], SMALL["head_dim"], SMALL["head_dim"]))
    runner: Any = core.runner
    test = selftest.through_pages(lambda cache: again(runner, model, cache), shapes, runner.cache, wanted, 0.2)
    findings.lines.append(
        f"Logits on the device in bfloat16, chunked and decoded over pages, against the CPU in float32: "
        f"{'the same' if test.passed else 'NOT the same'} (worst row {test.max_difference:.3f} standard deviations)."
    )
    said = ours(core, events, 6, 48)[1]
    ahead = sum(event.ahead for event in events if isinstance(event, Step))
    core.runner = Waiting(runner)
    alone = ours(core, events, 6, 48)[1]
    findings.lines.append(f"Greedy replies with steps launched ahead ({ahead} were) and without: {same(said, alone)}.")
    core.runner = runner
    if isinstance(runner, cuda_runner.CudaRunner) and runner.graphs is not None:
        runner.graphs, graphs = None, runner.graphs
        findings.lines.append(
            f"Greedy replies with and without CUDA graphs: {same(said, ours(core, events, 6, 48)[1])}."
        )
        runner.graphs = graphs


def again(runner: Any, model: Any, cache: KVCache) -> PagedRunner:
    """A runner like this one over other pages."""
    if isinstance(runner, cuda_runner.CudaRunner):
        return cuda_runner.CudaRunner(model, cache, runner.attend)
    return PagedRunner(model, cache)


def same(ours: list[tuple[int, ...]], others: list[tuple[int, ...]]) -> str:
    equal = sum(a == b for a, b in zip(ours, others, strict=True))
    return f"{equal} of {len(ours)} the same over {len(ours[0])} tokens"


def our_speed(name: str, model: Any, device: torch.device, findings: Findings, streams: list[int], new: int) -> None:
    """One shape, all numbers of streams, each with and without launching the next step ahead."""
    events: list[AnyEvent] = []
    core, card = core_for(model, device, max(streams), events)
    memory = memory_speed.bytes_per_second(card.step_bytes, device)
    findings.lines.append(
        f"{name}: memory is read at {memory / 1e9:,.0f} GB/s, a step reads {card.step_bytes / 1e9:.2f} GB."
    )
    runner = core.runner
    for count in streams:
        row = findings.row(name, count)
        ours(core, events, count, 8)
        row.ours = statistics.median(ours(core, events, count, new)[0] for _ in range(3))
        step = card.step_bytes + count * (PROMPT + new / 2) * card.page_bytes / card.page_size
        row.share = row.ours / count * step / memory
        if runs_ahead(runner):
            core.runner = Waiting(runner)
            row.waiting = ours(core, events, count, new)[0]
            core.runner = runner
        findings.write()


def peer_speed(name: str, model: Any, device: torch.device, findings: Findings, streams: list[int], new: int) -> None:
    """The same shape through `generate`."""
    model.set_attn_implementation("sdpa")
    generate(model, device, 1, 4)
    for count in streams:
        findings.row(name, count).peer = generate(model, device, count, min(new, 48))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="small shapes, few streams, few tokens; writes nothing")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("There is no CUDA device that torch can use: nothing was measured.")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else results_file.machine()
    findings = Findings(name)
    if arguments.quick:
        results_file.FILE = Path(tempfile.gettempdir()) / "cutaway-gpu-quick.md"
    with torch.inference_mode():
        findings.part("Correctness", lambda: correctness(device, findings))
        streams, new = (list(STREAMS[:2]), 16) if arguments.quick else (list(STREAMS), NEW)
        for shape_name, shape in SHAPES.items():
            try:
                model = random_model({**shape, **SMALL} if arguments.quick else shape, device, torch.bfloat16)
            except RuntimeError as error:
                findings.lines.append(f"{shape_name}: not made, {type(error).__name__}.")
                continue
            for what, measure in (("ours", our_speed), ("`generate`", peer_speed)):
                run = functools.partial(measure, shape_name, model, device, findings, streams, new)
                findings.part(f"{shape_name}, {what}", run)
            del model, run  # the next shape needs the room


if __name__ == "__main__":
    main()
