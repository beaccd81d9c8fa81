"""Measures exact runs of a built engine on freshly drawn held-out episodes, through the real generation code.

    python3 accuracy.py --repository DIR/model_repository --runs 500 --seed 1

A run is exact when every tool call and the answer are. As in serving, each model call is a request of its own.
"""

import argparse
import collections
import random
from dataclasses import dataclass
from pathlib import Path

from builder.generation.batcher import Batcher
from builder.generation.decoder import OnnxDecoder
from builder.generation.request import checked_request
from corpus.episodes import Episode, draw_episode
from corpus.split import Split

STOP_WORD = b"\n\n"
MAX_TOKENS = 200


@dataclass(frozen=True)
class Mistake:
    """The first call of a run that came out wrong."""

    prompt: str
    expected: str
    written: str


def play(decoder: OnnxDecoder, episodes: list[Episode]) -> list[Mistake | None]:
    """Plays all episodes at once and returns each one's first mistake, if any."""
    batcher: Batcher[int] = Batcher(decoder)
    calls = [list(episode.model_calls()) for episode in episodes]
    mistakes: list[Mistake | None] = [None] * len(episodes)
    written = [""] * len(episodes)
    for index in range(len(episodes)):
        _submit(batcher, index, calls[index][0][0])
    while not batcher.is_idle:
        for progress in batcher.step():
            index = progress.key
            written[index] += progress.text
            if progress.finish_reason is None:
                continue
            prompt, completion = calls[index].pop(0)
            expected = completion.removesuffix("\n\n")
            if written[index] != expected:
                mistakes[index] = Mistake(prompt, expected, written[index])
            elif calls[index]:
                written[index] = ""
                _submit(batcher, index, calls[index][0][0])
    return mistakes


def held_out_episodes(n_runs: int, seed: int, context_length: int) -> list[Episode]:
    """Draws held-out episodes that fit the context with room to spare."""
    rng = random.Random(f"accuracy {seed}")
    return [draw_episode(rng, Split.HELD_OUT, context_length - 2) for _ in range(n_runs)]


def label(episode: Episode) -> str:
    """Returns the group an episode is counted in."""
    if any(turn.answer.startswith("error: ") for turn in episode.turns):
        return "with a failed tool"
    return f"{len(episode.turns)} turns" if len(episode.turns) > 1 else episode.turns[0].kind


def _submit(batcher: Batcher[int], index: int, prompt: str) -> None:
    batcher.submit(index, checked_request(prompt.encode(), MAX_TOKENS, [STOP_WORD], batcher.context_length))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    decoder = OnnxDecoder(arguments.repository / "agent" / "1" / "model.onnx", n_rows=32, n_threads=1)
    episodes = held_out_episodes(arguments.runs, arguments.seed, decoder.context_length)
    mistakes = play(decoder, episodes)
    by_label: dict[str, list[bool]] = collections.defaultdict(list)
    for episode, mistake in zip(episodes, mistakes):
        by_label[label(episode)].append(mistake is None)
    for name, outcomes in sorted(by_label.items()):
        print(f"{name:24} {sum(outcomes)}/{len(outcomes)}")
    for mistake in [mistake for mistake in mistakes if mistake][:5]:
        print(f"--- expected {mistake.expected!r}, written {mistake.written!r} after\n{mistake.prompt}")
    exact = mistakes.count(None)
    print(f"{decoder.precision}: {exact} of {len(mistakes)} runs exact ({100 * exact / len(mistakes):.1f} %)")


if __name__ == "__main__":
    main()
