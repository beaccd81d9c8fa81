"""Plays the tools of an episode: draws what look-ups answer, computes calculations, lets calls fail on request."""

from dataclasses import dataclass
from fractions import Fraction

from corpus.draw import Draw


class ToolFailed(Exception):
    """A tool answered with an error; the text is what the answer must repeat."""


@dataclass(frozen=True)
class Step:
    """Calls made in parallel, and what they returned, in the same order."""

    actions: tuple[str, ...]
    observations: tuple[str, ...]


class Script:
    """Records the steps of one turn."""

    def __init__(self, draw: Draw, failing_call: int | None) -> None:
        self._draw = draw
        self._failing_call = failing_call
        self._n_calls = 0
        self.steps: list[Step] = []

    def lookup(self, *targets: str) -> list[str]:
        """Looks numbers up in parallel.

        Raises `ToolFailed` when one of the calls fails.
        """
        return self._call([f"lookup[{target}]" for target in targets], [self._draw.value() for _ in targets])

    def lookup_name(self, target: str) -> str:
        """Looks up an entity."""
        return self._call([f"lookup[{target}]"], [self._draw.name()])[0]

    def calc(self, expression: str, result: Fraction) -> str:
        """Calculates; `result` is the expression's value, printed as a calculator would."""
        return self._call([f"calc[{expression}]"], [printed(result, self._draw.pick((2, 4, 6, 10)))])[0]

    def _call(self, actions: list[str], results: list[str]) -> list[str]:
        observations = []
        failure = None
        for result in results:
            if self._n_calls == self._failing_call:
                text = self._draw.error_text()
                failure = failure or text
                # A dead server fails every call of a step, a missing entity only one.
                if self._draw.chance(0.5):
                    self._failing_call += 1
                result = f"error: {text}"
            observations.append(result)
            self._n_calls += 1
        self.steps.append(Step(tuple(actions), tuple(observations)))
        if failure is not None:
            raise ToolFailed(failure)
        return observations


def printed(value: Fraction, decimals: int) -> str:
    """Prints a number with at most `decimals` decimals and no trailing zeros."""
    if value.denominator == 1:
        return str(value.numerator)
    text = f"{float(value):.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
