"""Continuous batching: requests join and leave the batch between steps.

Pure bookkeeping around an `Engine`: no threads, no clock, no Triton. Decoding is greedy.
"""

import collections
import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from .engine import Engine
from .request import GenerationRequest
from .text import GrowingText

Key = TypeVar("Key")
"""How the caller tells requests apart."""


class FinishReason(enum.Enum):
    """Why a text ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class Progress(Generic[Key]):
    """New text of one request; the last one of a request has a finish reason."""

    key: Key
    text: str
    n_tokens: int
    finish_reason: FinishReason | None


@dataclass
class _Row(Generic[Key]):
    """A request that holds a row of the cache."""

    key: Key
    request: GenerationRequest
    text: GrowingText
    last_token: int
    n_tokens: int = 0

    @property
    def position(self) -> int:
        """Where the last generated token goes in the cache, which does not hold it yet."""
        return len(self.request.prompt) + self.n_tokens - 1


class Batcher(Generic[Key]):
    """Requests waiting for a row and requests being generated; row i of the cache belongs to the i-th of these."""

    def __init__(self, engine: Engine) -> None:
        self._decoder = engine.decoder
        self._vocabulary = engine.vocabulary
        self._waiting: collections.deque[tuple[Key, GenerationRequest]] = collections.deque()
        self._rows: list[_Row[Key]] = []

    @property
    def context_length(self) -> int:
        """Tokens a prompt and its answer may have together."""
        return self._decoder.context_length

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._rows

    @property
    def n_active(self) -> int:
        """Requests that hold a row."""
        return len(self._rows)

    def keys(self) -> list[Key]:
        """Returns every unfinished request."""
        return [row.key for row in self._rows] + [key for key, _ in self._waiting]

    def submit(self, key: Key, request: GenerationRequest) -> None:
        """Adds a request behind those that wait."""
        self._waiting.append((key, request))

    def cancel(self, key: Key) -> int:
        """Drops a request, frees its row and returns how many tokens it had got; unknown keys are ignored."""
        self._waiting = collections.deque(entry for entry in self._waiting if entry[0] != key)
        for index, row in enumerate(self._rows):
            if row.key == key:
                self._free(index)
                return row.n_tokens
        return 0

    def step(self) -> list[Progress[Key]]:
        """Admits at most one waiting request, then generates one token of each that holds a row.

        One prefill per step bounds how long running requests wait for new ones.
        """
        progress = self._admit()
        if not self._rows:
            return progress
        tokens = self._decoder.step([row.last_token for row in self._rows], [row.position for row in self._rows])
        # From the last row to the first, since freeing a row moves the last one into its place.
        for index in reversed(range(len(self._rows))):
            progress.append(self._advance(index, tokens[index]))
        return progress

    def _admit(self) -> list[Progress[Key]]:
        if not self._waiting or len(self._rows) == self._decoder.n_rows:
            return []
        key, request = self._waiting.popleft()
        token = self._decoder.prefill(len(self._rows), request.prompt)
        self._rows.append(_Row(key, request, GrowingText(request.stop_words), token))
        return [self._advance(len(self._rows) - 1, token)]

    def _advance(self, index: int, token: int) -> Progress[Key]:
        row = self._rows[index]
        row.last_token = token
        row.n_tokens += 1
        reason = None
        if token in self._vocabulary.ends or row.text.push(self._vocabulary.piece(token)):
            reason = FinishReason.STOP
        elif row.n_tokens == row.request.max_tokens or row.position == self._decoder.context_length:
            reason = FinishReason.LENGTH
        if reason is not None:
            row.text.finish()
            self._free(index)
        return Progress(row.key, row.text.take(), row.n_tokens, reason)

    def _free(self, index: int) -> None:
        last = self._rows.pop()
        if index < len(self._rows):
            self._rows[index] = last
            self._decoder.move_row(len(self._rows), index, last.position)
