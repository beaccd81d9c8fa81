"""Draws a quality data set of held-out model calls, one JSON object a line: id, prompt, expected, maxTokens, stopWords.

    python3 quality_set.py --samples 200 --seed 1 [--dialect chat] > dataset.jsonl

Each sample is one call of an episode, chosen at random, so calls deep in a run are judged too. `expected` is the text
without the stop word, as the engine returns it. A chat's prompt is what its template renders; it needs no stop word.
"""

import argparse
import json
import random

from corpus.judged import DIALECTS, held_out_transcript

MAX_TOKENS = 200
STOP_WORD = "\n\n"


def draw_samples(n_samples: int, seed: int, dialect: str = "react") -> list[dict]:
    """Returns samples from as many different episodes."""
    rng = random.Random(f"quality {seed}")
    samples = []
    for index in range(n_samples):
        prompt, completion = rng.choice(list(held_out_transcript(dialect, rng).model_calls()))
        samples.append({
            "id": f"{seed}-{index:04d}",
            "prompt": prompt,
            "expected": completion.removesuffix(STOP_WORD),
            "maxTokens": MAX_TOKENS,
            "stopWords": [STOP_WORD] if dialect == "react" else [],
        })
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialect", choices=DIALECTS, default="react")
    arguments = parser.parse_args()
    for sample in draw_samples(arguments.samples, arguments.seed, arguments.dialect):
        print(json.dumps(sample, ensure_ascii=False))


if __name__ == "__main__":
    main()
