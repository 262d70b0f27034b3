"""A model that was checked on this machine before, read again without transformers.

The first load goes through transformers' own model and its self-test. Where our kernels serve the model alone, that
load leaves a blueprint: what a step needs besides the weights, and the logits that plain eager attention gave the
self-test's prompt. Later loads read the weights straight into the kernels, must give those logits again through
pages, and are taken the first way if they do not. Transformers takes longer to import than the weights to read.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from torch import Tensor, nn

from . import kernels, places
from .decode_step import Shape
from .kv_cache import LayerShape
from .linear import Arena, QuantLinear
from .models import LocalModel
from .selftest import Reference

logger = logging.getLogger(__name__)


class Blueprint(msgspec.Struct, frozen=True):
    """What serving needs besides the weights."""

    architecture: str
    parameters: int
    window: int  # positions that the model was made for
    vocabulary: int
    layers: int
    layer_shape: LayerShape  # the same in all of them
    shape: Shape
    epsilon: float  # of the norms
    frequencies: list[float]  # rotary, by pair of a head's dimensions
    rope_scale: float
    products: dict[str, str]  # quantised layers: name of the module -> name of its weight in the files
    others: list[str]  # tensors that are used as they are
    reference: Reference


def of(
    model: Any, shape: Shape, parameters: int, window: int, shapes: dict[int, LayerShape], reference: Reference
) -> Blueprint | None:
    """The blueprint of a transformers model of this shape; None for one whose layers differ in theirs."""
    rotary = model.model.rotary_emb
    if len(set(shapes.values())) != 1 or not hasattr(rotary, "inv_freq"):
        return None
    products = {name: f"{name}.weight" for name, module in model.named_modules() if isinstance(module, QuantLinear)}
    if model.config.tie_word_embeddings:
        products["lm_head"] = "model.embed_tokens.weight"
    return Blueprint(
        architecture=str(model.config.model_type),
        parameters=parameters,
        window=window,
        vocabulary=model.lm_head.out_features,
        layers=len(model.model.layers),
        layer_shape=shapes[0],
        shape=shape,
        epsilon=float(model.model.norm.variance_epsilon),
        frequencies=rotary.inv_freq.double().tolist(),
        rope_scale=float(rotary.attention_scaling),
        products=products,
        others=[name for name, _ in model.named_parameters()],
        reference=reference,
    )


def place(local: LocalModel, library: Path) -> Path:
    """Where the blueprint of a model is kept, by everything that it or its reference depends on.

    `library` is the file of our kernels, compiled or to be compiled.
    """
    versions = (importlib.metadata.version(name) for name in ("cutaway", "torch", "transformers"))
    key = hashlib.sha256("\0".join((local.identity, library.name, *versions)).encode()).hexdigest()
    return places.cache() / "blueprints" / f"{key[:24]}.msgpack"


def keep(blueprint: Blueprint, target: Path) -> None:
    """Write it, whole or not at all. A cache that can't be written costs the next load its short way, no more."""
    try:
        places.put(target, msgspec.msgpack.encode(blueprint))
    except OSError as error:
        logger.warning("the model's blueprint can't be kept: %s", error)


def find(target: Path) -> Blueprint | None:
    """What `keep` wrote; None where nothing is or it can't be read."""
    try:
        return msgspec.msgpack.decode(target.read_bytes(), type=Blueprint)
    except (OSError, msgspec.MsgspecError):
        return None


def read(blueprint: Blueprint, folder: Path, library: kernels.Library) -> nn.Module:
    """The model's weights in the places where `NativeStep` looks for them, quantised as the first load did.

    Raises `KeyError` or `ValueError` where the files hold something else than the blueprint says, `OSError` where
    they can't be read.
    """
    model = nn.Module()
    with _Tensors(folder) as tensors:
        weights = {name: tensors.get(weight) for name, weight in blueprint.products.items()}
        arena = Arena(sum(map(QuantLinear.storage, weights.values())))
        for name, weight in weights.items():
            bias = tensors.get(f"{name}.bias") if f"{name}.bias" in tensors.files else None
            _put(model, name, QuantLinear(weight, bias, library, arena))
        for name in blueprint.others:
            module, _, leaf = name.rpartition(".")
            owned = tensors.get(name).to(torch.float32, copy=True)  # else the whole file would stay mapped
            parameter = nn.Parameter(owned, requires_grad=False)
            _at(model, module).register_parameter(leaf, parameter)
    inner: Any = model.model
    inner.embed_tokens = nn.Embedding.from_pretrained(inner.embed_tokens.weight.data)
    inner.layers = nn.ModuleList(getattr(inner.layers, str(index)) for index in range(blueprint.layers))
    inner.norm.variance_epsilon = blueprint.epsilon
    inner.rotary_emb = _Rotary(blueprint)
    model.config = SimpleNamespace(max_position_embeddings=blueprint.window)  # type: ignore[assignment]
    return model.eval()


class _Rotary:
    """Angles as transformers' rotary embeddings make them for kinds that depend on the position alone."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.frequencies = torch.tensor(blueprint.frequencies, dtype=torch.float32)  # [head_dim / 2]
        self.scale = blueprint.rope_scale

    def __call__(self, _: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions [1, P] -> cosines and sines [1, P, head_dim], both halves alike."""
        angles = positions.float().unsqueeze(-1) * self.frequencies  # [1, P, head_dim / 2]
        both = torch.cat((angles, angles), dim=-1)
        return both.cos() * self.scale, both.sin() * self.scale


class _Tensors:
    """The tensors of a folder's safetensors files, mapped, not read."""

    def __init__(self, folder: Path) -> None:
        opened = [safe_open(file, framework="pt") for file in sorted(folder.glob("*.safetensors"))]
        self.files: dict[str, Any] = {name: file for file in opened for name in file.keys()}  # noqa: SIM118

    def __enter__(self) -> _Tensors:
        return self

    def __exit__(self, *_: object) -> None:
        self.files.clear()

    def get(self, name: str) -> Tensor:
        return self.files[name].get_tensor(name)


def _at(root: nn.Module, path: str) -> nn.Module:
    """The module called `path` under `root`, made of empty ones where there is none yet."""
    for part in path.split("."):
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    return root


def _put(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    (_at(root, parent) if parent else root).add_module(name, module)
