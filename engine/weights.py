"""From a model folder to a transformers model in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .errors import LoadCancelled, ModelError, OutOfMemory

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def read_config(folder: Path) -> Any:
    """The model's configuration.

    Raises `ModelError` where transformers does not know the architecture.
    """
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as known

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, KeyError, OSError) as error:
        first = str(error).splitlines()[0]
        raise ModelError(f"{folder / 'config.json'} can't be read: {first}") from error
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if config.model_type not in known and text.model_type not in known:
        raise ModelError(f"{folder}: {config.model_type!r} is not a model that writes text.", "Choose another model.")
    return config


def load(folder: Path, config: Any, dtype: torch.dtype, device: torch.device, cancelled: Callable[[], bool]) -> Any:
    """The model, in evaluation mode, with its weights in `dtype` on `device`.

    Raises `ModelError` for weights that do not fit the configuration, `OutOfMemory` when there is no room.
    """
    try:
        model = _from_folder(folder, config, dtype)
        if cancelled():
            raise LoadCancelled("Loading was cancelled.")
        return model.to(device).eval().requires_grad_(False)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise OutOfMemory(f"There is no room for the weights of {folder.name} on {device}.", _SMALLER) from error
    except RuntimeError as error:
        if "memory" in str(error).lower():
            raise OutOfMemory(f"There is no room for the weights of {folder.name} on {device}.", _SMALLER) from error
        raise


_SMALLER = "Choose a smaller model or a smaller precision."


def _from_folder(folder: Path, config: Any, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except (ValueError, OSError) as error:
        raise ModelError(f"{folder} can't be loaded: {str(error).splitlines()[0]}") from error
    model, told = loaded
    missing = sorted(told.get("missing_keys", ()))
    if missing:
        raise ModelError(f"{folder} lacks {len(missing)} of the model's tensors, {missing[0]} among them.")
    return model
