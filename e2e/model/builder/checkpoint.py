"""Reads a checkpoint folder: config.json and weights in safetensors, checked before anything is built from them."""

import json
import struct
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

_DTYPES = {"F16": np.float16, "F32": np.float32}


class CheckpointError(Exception):
    """The checkpoint cannot be used; the text names the file and the field."""


@dataclass(frozen=True)
class Config:
    """The part of config.json that the graph is built from."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int
    vocab_size: int
    rope_theta: float
    layer_norm_eps: float

    @property
    def head_size(self) -> int:
        """Channels per attention head."""
        return self.hidden_size // self.num_attention_heads


class Checkpoint:
    """Configuration and weights; weights are converted to 32 bits when read."""

    def __init__(self, config: Config, tensors: dict[str, np.ndarray]) -> None:
        self.config = config
        self._tensors = tensors

    def names(self) -> list[str]:
        """Returns the names of all weights, in the order of the files."""
        return list(self._tensors)

    def tensor(self, name: str) -> np.ndarray:
        """Returns a weight.

        Raises `CheckpointError` when the checkpoint lacks it.
        """
        if name not in self._tensors:
            raise CheckpointError(f"the checkpoint has no tensor {name}")
        return self._tensors[name].astype(np.float32)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Reads configuration and all `*.safetensors` of a folder.

    Raises `CheckpointError`.
    """
    config = _read_config(folder / "config.json")
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        raise CheckpointError(f"{folder} holds no *.safetensors file")
    tensors: dict[str, np.ndarray] = {}
    for shard in shards:
        tensors |= read_safetensors(shard)
    return Checkpoint(config, tensors)


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Reads one file of the format https://github.com/huggingface/safetensors describes.

    Raises `CheckpointError` when it is cut off or holds a type other than F16 and F32.
    """
    data = path.read_bytes()
    if len(data) < 8:
        raise CheckpointError(f"{path.name} is cut off: {len(data)} bytes")
    (header_size,) = struct.unpack("<Q", data[:8])
    try:
        header = json.loads(data[8 : 8 + header_size])
    except ValueError as error:
        raise CheckpointError(f"{path.name} has no readable header") from error
    body = memoryview(data)[8 + header_size :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise CheckpointError(f"{path.name}: tensor {name} is {entry['dtype']}; only F16 and F32 are supported")
        start, end = entry["data_offsets"]
        if end > len(body):
            raise CheckpointError(f"{path.name} is cut off within tensor {name}")
        tensors[name] = np.frombuffer(body[start:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def _read_config(path: Path) -> Config:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"config.json cannot be read: {error}") from error
    if values.get("model_type") != "slipway_react":
        found = values.get("model_type")
        raise CheckpointError(f"config.json: model_type is {found!r}, this builder takes 'slipway_react'")
    missing = [field.name for field in fields(Config) if field.name not in values]
    if missing:
        raise CheckpointError(f"config.json lacks {', '.join(missing)}")
    return Config(**{field.name: values[field.name] for field in fields(Config)})
