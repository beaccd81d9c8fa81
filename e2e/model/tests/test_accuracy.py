"""How good the committed models are, measured through the real builder and the real generation code.

The sizes keep all of this near a minute on one core; README.md has the accuracy on many more runs.
"""

import pytest

from accuracy import Mistake, play
from corpus.judged import held_out_transcripts


@pytest.fixture(scope="module")
def transcripts():
    return {dialect: held_out_transcripts(dialect, 80, seed=2026) for dialect in ("react", "chat")}


def exact(mistakes: list[Mistake | None]) -> float:
    return mistakes.count(None) / len(mistakes)


def test_the_full_precision_engine_writes_at_least_95_percent_of_held_out_runs_exactly(engine, transcripts):
    assert exact(play(engine("react-512", "FP32"), transcripts["react"])) >= 0.95


def test_the_full_precision_engine_writes_at_least_95_percent_of_held_out_chats_exactly(engine, transcripts):
    assert exact(play(engine("react-512", "FP32"), transcripts["chat"][:30])) >= 0.95


@pytest.mark.parametrize("dialect", ["react", "chat"])
def test_the_8_bit_engine_is_usable(engine, transcripts, dialect):
    assert exact(play(engine("react-512", "INT8"), transcripts[dialect][:30])) >= 0.9


@pytest.mark.parametrize("dialect", ["react", "chat"])
def test_the_small_model_is_usable(engine, transcripts, dialect):
    assert exact(play(engine("react-256", "FP32"), transcripts[dialect][:40])) >= 0.9


def test_noise_on_the_weights_is_noticed(engine, transcripts):
    assert exact(play(engine("react-256", "FP32", weightNoisePercent=100), transcripts["react"][:10])) <= 0.1
