"""The same words under the model's own template and under one of another family."""

from __future__ import annotations

from hashlib import blake2b

from ....engine.protocol import Message
from .. import figures
from ..chapter import Figures
from ..stage import Stage

SYSTEM = Message("system", "Answer in one short sentence.")
FAMILIES = {"llama3": "<|eot_id|>", "chatml": "<|im_end|>"}  # a built-in template, and a marker of that family


async def run(stage: Stage, setting: str) -> Figures:
    template = ""
    if setting == "foreign":
        template = await _foreign(stage)
    elif not stage.card.chat_template:
        template = "plain"
    await stage.ask("mine", SYSTEM, stage.question, most=24, template=template)
    await stage.finished("mine")
    view = stage.view
    assert view is not None
    prompt = view.request("mine").prompt
    row = ",".join(str(token.id) for token in prompt)
    return {
        "tokens": len(prompt),
        "markers": sum(token.control for token in prompt),
        "ids": blake2b(row.encode(), digest_size=4).hexdigest(),
        "answer": figures.beginning(view.reply()),
    }


async def _foreign(stage: Stage) -> str:
    """A family whose markers are no control tokens of this model."""
    for family, marker in FAMILIES.items():
        await stage.ask(family, stage.question, most=1, template=family)
        await stage.finished(family)
        assert stage.view is not None
        if not any(token.control and token.piece == marker for token in stage.view.request(family).prompt):
            return family
    return "plain"
