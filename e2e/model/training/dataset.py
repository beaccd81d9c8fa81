"""Turns episodes and chats into arrays of tokens, labels and loss weights, grouped by length."""

import functools
import itertools
import multiprocessing
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from corpus.chat import MAX_CHARACTERS, Chat, draw_chat
from corpus.episodes import MAX_BYTES, Episode, draw_episode
from corpus.split import Split
from training.vocabulary import END, PAD

BUCKETS = (192, 384, 576, 832, 2048)
"""Padded lengths; the last one is the context length."""

CONTEXT, COMPLETION = 1, 2
"""Codes of the loss weight: text the model reads and text it writes; 0 is padding."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SINGLE_LINE_END_SHARE = 0.1
_CHATS_PER_EPISODE = 0.9
_PART = 2_500


@dataclass(frozen=True)
class Bucket:
    """Sequences padded to one length."""

    tokens: np.ndarray
    labels: np.ndarray
    roles: np.ndarray


class Encoder:
    """Encodes transcripts with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.pad = tokenizer.token_to_id(PAD)
        self.end = tokenizer.token_to_id(END)
        self._encode_line = functools.lru_cache(maxsize=100_000)(lambda line: tokenizer.encode(line).ids)

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text: those of its lines, many of which occur again and again."""
        return [token for line in _LINE.findall(text) for token in self._encode_line(line)]

    def encode_transcript(
        self, transcript: Episode | Chat, rng: random.Random | None
    ) -> tuple[list[int], list[int], list[int]]:
        """Returns tokens, the label of each position and its role.

        A completion's last position is labeled with the end mark although an episode's transcript goes on, since
        there the model must stop. With `rng`, some of an episode's completions lose their second line end in the
        transcript, as a runtime that strips white space would have it; their labels stay what should be written.
        """
        tokens: list[int] = []
        labels: list[int] = []
        roles: list[int] = []
        may_lose_line_end = rng is not None and isinstance(transcript, Episode)
        for text, is_completion in transcript.pieces():
            target = self.encode(text)
            if is_completion:
                loses = may_lose_line_end and rng.random() < _SINGLE_LINE_END_SHARE
                shown = target[:-1] if loses else target
                labels[-1], roles[-1] = target[0], COMPLETION
                labels += (target[1:] + [self.end])[: len(shown)]
                roles += [COMPLETION] * len(shown)
            else:
                shown = target
                if roles and roles[-1] == 0:
                    labels[-1], roles[-1] = target[0], CONTEXT
                labels += target[1:] + [self.pad]
                roles += [CONTEXT] * (len(target) - 1) + [0]
            tokens += shown
        return tokens, labels, roles

    def padded(self, sequences: Iterable[tuple[list[int], list[int], list[int]]]) -> dict[int, Bucket]:
        """Groups encoded transcripts by the smallest bucket that holds them; longer ones are left out."""
        groups: dict[int, list] = {length: [] for length in BUCKETS}
        for sequence in sequences:
            if len(sequence[0]) <= BUCKETS[-1]:
                groups[next(length for length in BUCKETS if length >= len(sequence[0]))].append(
                    [np.array(column, np.int16) for column in sequence]
                )
        return {length: self._bucket(group, length) for length, group in groups.items()}

    def _bucket(self, sequences: list, length: int) -> Bucket:
        tokens = np.full((len(sequences), length), self.pad, np.int16)
        labels = np.full((len(sequences), length), self.pad, np.int16)
        roles = np.zeros((len(sequences), length), np.uint8)
        for row, columns in enumerate(sequences):
            for array, values in zip((tokens, labels, roles), columns):
                array[row, : len(values)] = values
        return Bucket(tokens, labels, roles)


class TrainingSet:
    """Training transcripts, drawn in other processes while the training is under way."""

    def __init__(self, tokenizer: Path, n_episodes: int, n_processes: int) -> None:
        shares = [(tokenizer, seed) for seed in range(n_episodes // _PART)]
        self._pool = multiprocessing.Pool(n_processes)
        self._parts = self._pool.imap(_draw_part, shares)

    def arrived(self, at_least: int = 0) -> Iterator[dict[int, Bucket]]:
        """Yields the parts that are ready and were not yielded yet; waits for the first `at_least` of them."""
        for count in itertools.count():
            try:
                yield self._parts.next(timeout=None if count < at_least else 0)
            except multiprocessing.TimeoutError:
                return
            except StopIteration:
                self._pool.close()
                return


def _draw_part(share: tuple[Path, int]) -> dict[int, Bucket]:
    tokenizer, seed = share
    encoder = Encoder(Tokenizer.from_file(str(tokenizer)))
    rng = random.Random(f"training {seed}")
    return encoder.padded(encoder.encode_transcript(drawn, rng) for drawn in _drawn(rng, _PART))


def _drawn(rng: random.Random, n_episodes: int) -> Iterator[Episode | Chat]:
    for _ in range(n_episodes):
        yield draw_episode(rng, Split.TRAINING, MAX_BYTES)
        if rng.random() < _CHATS_PER_EPISODE:
            yield draw_chat(rng, Split.TRAINING, MAX_CHARACTERS)
