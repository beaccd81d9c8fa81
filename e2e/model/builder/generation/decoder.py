"""What the batcher needs of a network, whatever runs it: onnx_decoder.py on a CPU, torch_decoder.py on a GPU."""

from typing import Protocol


class Decoder(Protocol):
    """A network with a key-value cache of one row per request; the rows of a batch are the first ones."""

    context_length: int
    n_rows: int
    precision: str
    end_tokens: frozenset[int]

    def prefill(self, row: int, tokens: tuple[int, ...]) -> int:
        """Fills a row's cache with a prompt and returns the first generated token."""

    def step(self, tokens: list[int], positions: list[int]) -> list[int]:
        """Appends one token to each of the first rows and returns the next token of each."""

    def move_row(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` positions of a row's cache to another row."""


class ExtraCompute:
    """Repeats a share of all runs, without effect on their results: real work, to exercise what a deployment does when
    a model gets slower."""

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._owed = {"prefill": 0, "step": 0}

    def runs(self, kind: str) -> int:
        """Returns how often the next run of a kind is made: once, and what is owed of the share."""
        self._owed[kind] += 100 + self._percent
        n_runs, self._owed[kind] = divmod(self._owed[kind], 100)
        return n_runs
