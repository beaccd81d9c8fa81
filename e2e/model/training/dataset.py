"""Turns episodes into arrays of tokens, labels and loss weights, grouped by length."""

import multiprocessing
import random
from dataclasses import dataclass

import numpy as np

from builder.generation.tokens import BOS, EOS, PAD
from corpus.episodes import Episode, draw_episode
from corpus.split import Split

BUCKETS = (256, 384, 512, 768)
"""Padded lengths; the last one is the context length."""

CONTEXT, COMPLETION = 1, 2
"""Codes of the loss weight: text the model reads and text it writes; 0 is padding."""

_SINGLE_LINE_END_SHARE = 0.1


@dataclass(frozen=True)
class Bucket:
    """Sequences padded to one length."""

    tokens: np.ndarray
    labels: np.ndarray
    roles: np.ndarray


def encode_episode(episode: Episode, rng: random.Random | None) -> tuple[list[int], list[int], list[int]]:
    """Returns tokens, the label of each position and its role.

    A completion's last position is labeled with the end mark although the transcript goes on, since there the
    model must stop. With `rng`, some completions lose their second line end in the transcript, as a runtime
    that strips white space would have it; their labels stay what the model should have written.
    """
    tokens, labels, roles = [BOS], [PAD], [0]
    for text, is_completion in episode.pieces():
        target = list(text.encode())
        if is_completion:
            shown = target[:-1] if rng is not None and rng.random() < _SINGLE_LINE_END_SHARE else target
            labels[-1], roles[-1] = target[0], COMPLETION
            labels += (target[1:] + [EOS])[: len(shown)]
            roles += [COMPLETION] * len(shown)
        else:
            shown = target
            if roles[-1] == 0:
                labels[-1], roles[-1] = target[0], CONTEXT
            labels += target[1:] + [PAD]
            roles += [CONTEXT] * (len(target) - 1) + [0]
        tokens += shown
    return tokens, labels, roles


def draw_training_set(n_episodes: int, n_processes: int) -> dict[int, Bucket]:
    """Draws training episodes in parallel, in deterministic order."""
    shares = [(seed, n_episodes // n_processes) for seed in range(n_processes)]
    with multiprocessing.Pool(n_processes) as pool:
        parts = pool.starmap(_draw_part, shares)
    return {length: _concatenated([part[length] for part in parts]) for length in BUCKETS}


def _draw_part(seed: int, n_episodes: int) -> dict[int, Bucket]:
    rng = random.Random(f"training {seed}")
    episodes = (draw_episode(rng, Split.TRAINING, BUCKETS[-1] - 2) for _ in range(n_episodes))
    return padded(encode_episode(episode, rng) for episode in episodes)


def padded(sequences) -> dict[int, Bucket]:
    """Groups encoded episodes by the smallest bucket that holds them."""
    groups: dict[int, list] = {length: [] for length in BUCKETS}
    for sequence in sequences:
        groups[next(length for length in BUCKETS if length >= len(sequence[0]))].append(sequence)
    return {length: _bucket(group, length) for length, group in groups.items()}


def _bucket(sequences: list, length: int) -> Bucket:
    tokens = np.full((len(sequences), length), PAD, np.int16)
    labels = np.full((len(sequences), length), PAD, np.int16)
    roles = np.zeros((len(sequences), length), np.uint8)
    for row, columns in enumerate(sequences):
        for array, values in zip((tokens, labels, roles), columns):
            array[row, : len(values)] = values
    return Bucket(tokens, labels, roles)


def _concatenated(buckets: list[Bucket]) -> Bucket:
    names = ("tokens", "labels", "roles")
    return Bucket(*(np.concatenate([getattr(bucket, name) for bucket in buckets]) for name in names))
