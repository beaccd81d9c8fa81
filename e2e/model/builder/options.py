"""Reads /slipway/task/build.json: what to build, every field checked by name."""

import enum
import json
from dataclasses import dataclass
from pathlib import Path


class Runtime(enum.Enum):
    """What runs the network."""

    ONNX = "onnx"
    TORCH = "torch"


PRECISIONS = {Runtime.ONNX: ("FP32", "INT8"), Runtime.TORCH: ("FP32", "FP16", "INT8", "FP8")}


class OptionError(Exception):
    """The build task cannot be carried out as written; the text names the field and the remedy."""


@dataclass(frozen=True)
class Limits:
    """The range of an integer option and the value it has when absent."""

    default: int
    minimum: int
    maximum: int


INTEGER_OPTIONS = {
    "maxBatchSize": Limits(default=32, minimum=1, maximum=256),
    "instances": Limits(default=1, minimum=1, maximum=16),
    "threads": Limits(default=1, minimum=1, maximum=64),
    "streamInterval": Limits(default=4, minimum=1, maximum=64),
    "extraComputePercent": Limits(default=0, minimum=0, maximum=1000),
    "executeDelayMilliseconds": Limits(default=0, minimum=0, maximum=10000),
    "weightNoisePercent": Limits(default=0, minimum=0, maximum=1000),
}
"""The last three make an engine worse on purpose: slower, delayed, wrong; they exercise what must notice it."""

TORCH_OPTIONS = {
    "cudaGraphs": Limits(default=1, minimum=0, maximum=1),
    "weightOnly": Limits(default=0, minimum=0, maximum=1),
}
"""What only networks for torch have: steps as CUDA graphs, and activations in floating point beside 8-bit weights."""


@dataclass(frozen=True)
class BuildTask:
    """A checked build task."""

    precision: str
    variant: str | None
    options: dict[str, int]
    runtime: Runtime = Runtime.ONNX


def read_build_task(path: Path) -> BuildTask:
    """Reads and checks a build task.

    Raises `OptionError`.
    """
    try:
        task = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise OptionError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(task, dict):
        raise OptionError(f"{path.name}: expected an object")
    _refuse_unknown("field", task, ("precision", "variant", "options"))
    given = _given_options(task)
    runtime = _runtime(given)
    precision, known = task.get("precision"), PRECISIONS[runtime]
    if precision not in known:
        raise OptionError(f"precision: expected one of {', '.join(known)}, got {precision!r}")
    variant = task.get("variant")
    if variant is not None and not _is_folder_name(variant):
        raise OptionError(f"variant: expected the name of a folder of the checkpoint, got {variant!r}")
    return BuildTask(precision, variant, _integers(given, runtime), runtime)


def _given_options(task: dict) -> dict:
    given = task.get("options") or {}
    if not isinstance(given, dict):
        raise OptionError(f"options: expected an object, got {given!r}")
    # The operator hands the user's options over as they stand in the spec, all of them texts, variant included.
    return {name: value for name, value in given.items() if name != "variant"}


def _runtime(given: dict) -> Runtime:
    value = given.get("runtime", Runtime.ONNX.value)
    known = [runtime.value for runtime in Runtime]
    if value not in known:
        raise OptionError(f"options.runtime: expected one of {', '.join(known)}, got {value!r}")
    return Runtime(value)


def _integers(given: dict, runtime: Runtime) -> dict[str, int]:
    known = INTEGER_OPTIONS | (TORCH_OPTIONS if runtime is Runtime.TORCH else {})
    _refuse_unknown("option", given, (*known, "runtime"))
    options = {}
    for name, limits in known.items():
        value = str(given.get(name, limits.default))
        if not value.isdecimal() or not limits.minimum <= int(value) <= limits.maximum:
            raise OptionError(
                f"options.{name}: expected an integer from {limits.minimum} to {limits.maximum}, got {value}"
            )
        options[name] = int(value)
    return options


def _refuse_unknown(what: str, given: dict, known) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise OptionError(f"unknown {what} {', '.join(unknown)}; known are {', '.join(known)}")


def _is_folder_name(value: object) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value
