"""Measures exact runs of a built engine on freshly drawn held-out transcripts, through the real generation code.

    python3 accuracy.py --repository DIR/model_repository --runs 500 --seed 1 [--dialect chat]

A run is exact when every tool call and the answer are. As in serving, each model call is a request of its own.
"""

import argparse
import collections
from dataclasses import dataclass
from pathlib import Path

from builder.generation.batcher import Batcher
from builder.generation.engine import Engine, load_engine
from builder.generation.request import checked_request
from corpus.chat import Chat
from corpus.episodes import Episode
from corpus.judged import DIALECTS, held_out_transcripts

STOP_WORD = "\n\n"
MAX_TOKENS = 200


@dataclass(frozen=True)
class Mistake:
    """The first call of a run that came out wrong."""

    prompt: str
    expected: str
    written: str


def play(engine: Engine, transcripts: list[Episode] | list[Chat]) -> list[Mistake | None]:
    """Plays all transcripts at once and returns each one's first mistake, if any."""
    batcher: Batcher[int] = Batcher(engine)
    calls = [list(transcript.model_calls()) for transcript in transcripts]
    mistakes: list[Mistake | None] = [None] * len(transcripts)
    written = [""] * len(transcripts)

    def submit(index: int) -> None:
        prompt = calls[index][0][0]
        stop_words = [STOP_WORD.encode()] if isinstance(transcripts[index], Episode) else []
        batcher.submit(index, checked_request(
            prompt.encode(), MAX_TOKENS, stop_words, engine.vocabulary, engine.context_length
        ))

    for index in range(len(transcripts)):
        submit(index)
    while not batcher.is_idle:
        for progress in batcher.step():
            index = progress.key
            written[index] += progress.text
            if progress.finish_reason is None:
                continue
            prompt, completion = calls[index].pop(0)
            expected = completion.removesuffix(STOP_WORD)
            if written[index] != expected:
                mistakes[index] = Mistake(prompt, expected, written[index])
            elif calls[index]:
                written[index] = ""
                submit(index)
    return mistakes


def label(transcript: Episode | Chat) -> str:
    """Returns the group a transcript is counted in."""
    if any(turn.answer.startswith("error: ") for turn in transcript.turns):
        return "with a failed tool"
    return f"{len(transcript.turns)} turns" if len(transcript.turns) > 1 else transcript.turns[0].kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--dialect", choices=DIALECTS, default="react")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    engine = load_engine(arguments.repository / "agent" / "1", n_rows=32, n_threads=1)
    transcripts = held_out_transcripts(arguments.dialect, arguments.runs, arguments.seed)
    mistakes = play(engine, transcripts)
    by_label: dict[str, list[bool]] = collections.defaultdict(list)
    for transcript, mistake in zip(transcripts, mistakes):
        by_label[label(transcript)].append(mistake is None)
    for name, outcomes in sorted(by_label.items()):
        print(f"{name:24} {sum(outcomes)}/{len(outcomes)}")
    for mistake in [mistake for mistake in mistakes if mistake][:5]:
        print(f"--- expected {mistake.expected!r}, written {mistake.written!r} after\n{mistake.prompt}")
    exact = mistakes.count(None)
    share = 100 * exact / len(mistakes)
    print(f"{engine.decoder.precision}, {arguments.dialect}: {exact} of {len(mistakes)} runs exact ({share:.1f} %)")


if __name__ == "__main__":
    main()
