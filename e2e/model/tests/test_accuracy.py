"""How good the committed models are, measured through the real builder and the real generation code.

The sizes keep all of this under a minute on one core; README.md has the accuracy on many more runs.
"""

import pytest

from accuracy import Mistake, held_out_episodes, play

N_RUNS = 80


@pytest.fixture(scope="module")
def episodes():
    return held_out_episodes(N_RUNS, seed=2026, context_length=768)


def exact(mistakes: list[Mistake | None]) -> float:
    return mistakes.count(None) / len(mistakes)


def test_the_full_precision_engine_writes_at_least_95_percent_of_held_out_runs_exactly(decoder, episodes):
    assert exact(play(decoder("react-512", "FP32"), episodes)) >= 0.95


def test_the_8_bit_engine_is_usable(decoder, episodes):
    assert exact(play(decoder("react-512", "INT8"), episodes[:40])) >= 0.9


def test_the_small_model_is_usable(decoder, episodes):
    assert exact(play(decoder("react-256", "FP32"), episodes[:60])) >= 0.85


def test_noise_on_the_weights_is_noticed(decoder, episodes):
    assert exact(play(decoder("react-256", "FP32", weightNoisePercent=100), episodes[:10])) <= 0.1
