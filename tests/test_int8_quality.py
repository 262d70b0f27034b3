"""What int8 costs the default model, on a thousand tokens of English: no more than can go unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cutaway.engine import kernels
from cutaway.engine.decode_step import DecodeStep, NativeStep
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.linear import quantize_model
from cutaway.engine.models import resolve

TEXT = Path(__file__).with_name("texts") / "english.txt"

pytestmark = pytest.mark.model


@pytest.mark.skipif(kernels.load() is None, reason=f"no kernels here: {kernels.problem()}")
@torch.inference_mode()
def test_int8_keeps_the_distributions_and_the_top_tokens_of_float32() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = resolve("").folder
    ids = AutoTokenizer.from_pretrained(folder)(TEXT.read_text(), return_tensors="pt").input_ids[0][:1000]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    exact = model(ids[None], use_cache=False).logits[0].log_softmax(-1)  # [1000, vocabulary]

    quantize_model(model)
    config, count = model.config, len(ids)
    shape = (config.num_key_value_heads, config.head_dim, config.head_dim)
    pages = -(-count // 16)
    cache = KVCache.zeros(
        dict.fromkeys(range(config.num_hidden_layers), shape), pages, 16, torch.bfloat16, torch.device("cpu")
    )
    step, reason = DecodeStep.build(model, cache)
    assert isinstance(step, NativeStep), reason
    positions, table = torch.arange(count), torch.arange(pages, dtype=torch.int32).expand(count, -1)
    ours = torch.cat(
        [
            step.rows(ids[part], part, part, table[part], part + 1, torch.arange(len(part)))
            for part in positions.split(128)
        ]
    ).log_softmax(-1)

    divergence = (exact.exp() * (exact - ours)).sum(-1).mean()
    same = (exact.argmax(-1) == ours.argmax(-1)).float().mean()
    assert divergence < 0.006  # 0.0041 measured, of which 0.0014 the weights and 0.0010 what bfloat16 alone costs
    assert same > 0.93  # 0.954 measured
