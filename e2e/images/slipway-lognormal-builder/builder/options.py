"""Reads /slipway/task/build.json: how the engine is to behave, every field checked by name."""

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path


class OptionError(Exception):
    """The build task cannot be carried out as written; the text names the field and the remedy."""


@dataclass(frozen=True)
class Limits:
    """The range of an option, the value it has when absent, and whether it is a whole number."""

    default: str
    minimum: Decimal
    maximum: Decimal
    is_whole: bool = True

    def expectation(self) -> str:
        """Says what is accepted."""
        kind = "a whole number" if self.is_whole else "a number"
        return f"{kind} from {self.minimum} to {self.maximum}"


_NEVER = "-1"
"""Stands in config.pbtxt for an event that does not happen."""

OPTIONS = {
    "medianMilliseconds": Limits("40", Decimal(1), Decimal(600_000)),
    "sigma": Limits("0.5", Decimal(0), Decimal(4), is_whole=False),
    "seed": Limits("0", Decimal(0), Decimal(2**31)),
    "errorPercent": Limits("0", Decimal(0), Decimal(100)),
    "hangAfter": Limits(_NEVER, Decimal(0), Decimal(10**9)),
    "crashAfter": Limits(_NEVER, Decimal(1), Decimal(10**9)),
    "echo": Limits("0", Decimal(0), Decimal(1)),
    "lookUp": Limits("0", Decimal(0), Decimal(1)),
}
"""Options of the engine, in the order in which they stand in config.pbtxt."""


def read_behaviour(path: Path) -> dict[str, str]:
    """Reads the options of a build task, with the defaults of those that are absent.

    Precision and variant are accepted and change nothing: there is no model.
    Raises `OptionError`.
    """
    try:
        task = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise OptionError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(task, dict):
        raise OptionError(f"{path.name}: expected an object")
    given = task.get("options") or {}
    if not isinstance(given, dict):
        raise OptionError(f"options: expected an object, got {given!r}")
    unknown = sorted(set(given) - set(OPTIONS) - {"variant"})
    if unknown:
        raise OptionError(f"unknown option {', '.join(unknown)}; known are {', '.join(OPTIONS)}")
    return {name: _checked(name, limits, given.get(name)) for name, limits in OPTIONS.items()}


def _checked(name: str, limits: Limits, value: object) -> str:
    if value is None:
        return limits.default
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    is_good = number.is_finite() and limits.minimum <= number <= limits.maximum
    if not is_good or (limits.is_whole and number != number.to_integral_value()):
        raise OptionError(f"options.{name}: expected {limits.expectation()}, got {value}")
    return str(int(number) if limits.is_whole else number)
