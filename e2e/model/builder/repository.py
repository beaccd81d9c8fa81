"""Builds a complete Triton model repository from a checkpoint."""

import importlib
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np

from .checkpoint import Checkpoint, CheckpointError, read_checkpoint
from .generation.engine import TOKENIZER
from .options import BuildTask, OptionError, Runtime

MODEL_NAME = "agent"

_SOURCES = Path(__file__).parent
_WRITERS = {Runtime.ONNX: "onnx_engine", Runtime.TORCH: "torch_engine"}
# Torch's network puts itself on the GPU of its pod.
_INSTANCE_KIND = {Runtime.ONNX: "KIND_CPU", Runtime.TORCH: "KIND_MODEL"}
_CONFIG = """\
name: "{name}"
backend: "python"
max_batch_size: 0
model_transaction_policy {{ decoupled: true }}
input [
  {{ name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "stop_words" data_type: TYPE_STRING dims: [ -1 ] optional: true }},
  {{ name: "stream" data_type: TYPE_BOOL dims: [ 1 ] optional: true }}
]
output [
  {{ name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "finish_reason" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "output_tokens" data_type: TYPE_INT32 dims: [ 1 ] }}
]
instance_group [ {{ count: {instances} kind: {kind} }} ]
"""


def build_repository(task: BuildTask, checkpoint_folder: Path, output: Path) -> Path:
    """Writes `model_repository/agent` under `output` and returns it; equal inputs give equal bytes.

    Raises `CheckpointError`, and `OptionError` when the image lacks the runtime's packages.
    """
    writer = writer_of(task.runtime)
    folder = _variant_folder(checkpoint_folder, task.variant)
    checkpoint = read_checkpoint(folder)
    if task.options["weightNoisePercent"]:
        checkpoint = noisy(checkpoint, task.options["weightNoisePercent"])
    target = output / "model_repository" / MODEL_NAME
    unfinished = target.with_name(f".{MODEL_NAME}.unfinished")
    for old in (unfinished, target):
        shutil.rmtree(old, ignore_errors=True)
    version = unfinished / "1"
    version.mkdir(parents=True)
    writer.write(task, checkpoint, version)
    shutil.copyfile(folder / TOKENIZER, version / TOKENIZER)
    shutil.copyfile(_SOURCES / "triton" / "model.py", version / "model.py")
    shutil.copytree(
        _SOURCES / "generation", version / "generation",
        copy_function=shutil.copyfile, ignore=shutil.ignore_patterns("__pycache__"),
    )
    (unfinished / "config.pbtxt").write_text(triton_config(task))
    unfinished.rename(target)
    return target


def writer_of(runtime: Runtime) -> ModuleType:
    """Returns the module that writes networks for a runtime; an image has the packages of one only.

    Raises `OptionError`.
    """
    try:
        return importlib.import_module(f".{_WRITERS[runtime]}", __package__)
    except ModuleNotFoundError as error:
        raise OptionError(f"options.runtime: this image builds nothing for {runtime.value}: {error}") from error


def triton_config(task: BuildTask) -> str:
    """Returns config.pbtxt; parameters can be changed at load without a new build."""
    parameters = {
        "precision": task.precision,
        "max_batch": task.options["maxBatchSize"],
        "threads": task.options["threads"],
        "stream_interval": task.options["streamInterval"],
        "extra_compute_percent": task.options["extraComputePercent"],
        "execute_delay_milliseconds": task.options["executeDelayMilliseconds"],
    }
    if task.runtime is Runtime.TORCH:
        parameters["cuda_graphs"] = task.options["cudaGraphs"]
    lines = [
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in parameters.items()
    ]
    kind = _INSTANCE_KIND[task.runtime]
    return _CONFIG.format(name=MODEL_NAME, instances=task.options["instances"], kind=kind) + "".join(lines)


def noisy(checkpoint: Checkpoint, percent: int) -> Checkpoint:
    """Adds normal noise to every weight matrix, as large as `percent` of its standard deviation."""
    rng = np.random.default_rng(0)
    tensors = {}
    for name in checkpoint.names():
        tensor = checkpoint.tensor(name)
        if tensor.ndim == 2:
            tensor = tensor + rng.standard_normal(tensor.shape, np.float32) * tensor.std() * (percent / 100)
        tensors[name] = tensor
    return Checkpoint(checkpoint.config, tensors)


def _variant_folder(checkpoint: Path, variant: str | None) -> Path:
    """Returns the folder of one model; a checkpoint may hold several, told apart by variant."""
    folder = checkpoint if variant is None else checkpoint / variant
    if (folder / "config.json").is_file():
        return folder
    variants = sorted(path.parent.name for path in checkpoint.glob("*/config.json"))
    found = f"; its variants are {', '.join(variants)}" if variants else ""
    where = "the checkpoint" if variant is None else f"variant {variant}"
    raise CheckpointError(f"{where} has no config.json{found}")
