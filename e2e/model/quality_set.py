"""Draws a quality data set of held-out model calls, one JSON object a line: id, prompt, expected, maxTokens, stopWords.

    python3 quality_set.py --samples 200 --seed 1 > dataset.jsonl

Each sample is one call of an episode, chosen at random, so calls deep in a run are judged too. `expected` is the text
without the stop word, as the engine returns it.
"""

import argparse
import json
import random

from corpus.episodes import draw_episode
from corpus.split import Split

MAX_TOKENS = 200
STOP_WORD = "\n\n"
CONTEXT_LENGTH = 768


def draw_samples(n_samples: int, seed: int) -> list[dict]:
    """Returns samples from as many different episodes."""
    rng = random.Random(f"quality {seed}")
    samples = []
    for index in range(n_samples):
        # Two positions are the beginning mark's and the end mark's.
        episode = draw_episode(rng, Split.HELD_OUT, CONTEXT_LENGTH - 2)
        prompt, completion = rng.choice(list(episode.model_calls()))
        samples.append({
            "id": f"{seed}-{index:04d}",
            "prompt": prompt,
            "expected": completion.removesuffix(STOP_WORD),
            "maxTokens": MAX_TOKENS,
            "stopWords": [STOP_WORD],
        })
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for sample in draw_samples(arguments.samples, arguments.seed):
        print(json.dumps(sample, ensure_ascii=False))


if __name__ == "__main__":
    main()
