"""Reads /slipway/task/build.json: what to build, every field checked by name."""

import json
from dataclasses import dataclass
from pathlib import Path

PRECISIONS = ("FP32", "INT8")


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


@dataclass(frozen=True)
class BuildTask:
    """A checked build task."""

    precision: str
    variant: str | None
    options: dict[str, int]


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
    precision = task.get("precision")
    if precision not in PRECISIONS:
        raise OptionError(f"precision: expected one of {', '.join(PRECISIONS)}, got {precision!r}")
    variant = task.get("variant")
    if variant is not None and not _is_folder_name(variant):
        raise OptionError(f"variant: expected the name of a folder of the checkpoint, got {variant!r}")
    return BuildTask(precision, variant, _options(task.get("options") or {}))


def _options(given: object) -> dict[str, int]:
    if not isinstance(given, dict):
        raise OptionError(f"options: expected an object, got {given!r}")
    # The operator hands the user's options over as they stand in the spec, all of them texts, variant included.
    given = {name: value for name, value in given.items() if name != "variant"}
    _refuse_unknown("option", given, INTEGER_OPTIONS)
    options = {}
    for name, limits in INTEGER_OPTIONS.items():
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
