"""Writes a network for ONNX Runtime on a CPU."""

from pathlib import Path

from .checkpoint import Checkpoint
from .generation.engine import ONNX_MODEL
from .graph import build_graph
from .linear import LinearWriter, float32, int8
from .options import BuildTask

PACKAGES = ("numpy", "onnx", "onnxruntime")

_LINEAR: dict[str, LinearWriter] = {"FP32": float32, "INT8": int8}


def write(task: BuildTask, checkpoint: Checkpoint, folder: Path) -> None:
    """Writes the graph with its weights; equal inputs give equal bytes."""
    model = build_graph(checkpoint, _LINEAR[task.precision])
    metadata = {
        "context_length": checkpoint.config.max_position_embeddings, "precision": task.precision,
        "end_tokens": ",".join(map(str, checkpoint.config.end_tokens)),
    }
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=str(value))
    (folder / ONNX_MODEL).write_bytes(model.SerializeToString(deterministic=True))
