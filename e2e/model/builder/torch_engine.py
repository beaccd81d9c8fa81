"""Writes a network for torch: the weights as the GPU multiplies them, with the scales of those that have 8 bits.

Activations and the other weights have 16 bits; with FP32 all have 32.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from .checkpoint import Checkpoint
from .generation.engine import TORCH_MODEL
from .generation.torch_linear import quantized
from .generation.torch_network import METADATA, Shape
from .options import BuildTask

PACKAGES = ("numpy", "torch", "safetensors", "tokenizers")

_EIGHT_BITS = {"INT8": torch.int8, "FP8": torch.float8_e4m3fn}


def write(task: BuildTask, checkpoint: Checkpoint, folder: Path) -> None:
    """Writes the weights; equal inputs give equal bytes."""
    dtype = torch.float32 if task.precision == "FP32" else torch.float16
    tensors = {
        "embedding": _tensor(checkpoint.tensor("model.embed_tokens.weight")).to(dtype),
        "unembedding": _tensor(checkpoint.output_embedding()),
        "norm": _tensor(checkpoint.tensor("model.norm.weight")).to(dtype),
    }
    for index in range(checkpoint.config.num_hidden_layers):
        prefix = f"model.layers.{index}"
        for name, source in (("input_norm", "input_layernorm"), ("mlp_norm", "post_attention_layernorm")):
            tensors[f"{index}.{name}"] = _tensor(checkpoint.tensor(f"{prefix}.{source}.weight")).to(dtype)
        for name, weight in _products(checkpoint, prefix).items():
            if task.precision in _EIGHT_BITS:
                weight, tensors[f"{index}.{name}.scale"] = quantized(weight, _EIGHT_BITS[task.precision])
            else:
                weight = weight.to(dtype)
            tensors[f"{index}.{name}"] = weight
    shape = json.dumps(dataclasses.asdict(_shape(task, checkpoint)))
    owned = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    save_file(owned, folder / TORCH_MODEL, metadata={METADATA: shape})


def _products(checkpoint: Checkpoint, prefix: str) -> dict[str, torch.Tensor]:
    """Returns a layer's big matrices; those with the same input are joined to one."""

    def joined(folder: str, *parts: str) -> torch.Tensor:
        return _tensor(np.concatenate([checkpoint.tensor(f"{prefix}.{folder}.{part}_proj.weight") for part in parts]))

    return {
        "qkv": joined("self_attn", "q", "k", "v"), "output": joined("self_attn", "o"),
        "gate_up": joined("mlp", "gate", "up"), "down": joined("mlp", "down"),
    }


def _shape(task: BuildTask, checkpoint: Checkpoint) -> Shape:
    config = checkpoint.config
    return Shape(
        precision=task.precision,
        weight_only=bool(task.options["weightOnly"]),
        n_heads=config.num_attention_heads,
        n_key_heads=config.num_key_value_heads,
        n_channels=config.head_dim,
        context_length=config.max_position_embeddings,
        rope_theta=config.rope_theta,
        norm_epsilon=config.rms_norm_eps,
        end_tokens=config.end_tokens,
    )


def _tensor(weight: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(weight))
