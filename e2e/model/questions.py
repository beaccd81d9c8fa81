"""Draws a question for end-to-end tests from the held-out split, with the calls and the answer it must lead to.

    python3 questions.py --seed 7
    {"seed": 7, "kind": "total", "question": "...",
     "lookups": [{"entity": "Rema", "property": "area", "value": "41"}, ...],
     "steps": [["lookup[Rema.area]", "lookup[Tovu.area]"], ["calc[41+17]"]], "answer": "58"}

A look-up service that answers `lookups` makes the answer right; entity names and numbers never occurred in training.
Calculations are of whole numbers and have whole results, so that every calculator prints them alike.
"""

import argparse
import json
import random

from corpus.draw import Draw
from corpus.kinds import FIRST_KINDS
from corpus.script import Script, Step
from corpus.split import Kind, Split, split_of

KINDS = (
    "lookup", "total", "difference", "scaled", "shifted", "total_of_three", "two_properties", "total_then_scale",
    "three_then_scale", "above_two",
)
"""Kinds whose look-ups all give whole numbers and whose calculations keep them whole."""

_MAX_LENGTH = 160


def draw_question(seed: int, kind: str | None = None) -> dict:
    """Returns the question of a seed with its look-ups, its calls step by step and its answer."""
    draw = Draw(random.Random(f"question {seed}"), Split.HELD_OUT)
    kind = kind or draw.pick(KINDS)
    while True:
        task = FIRST_KINDS[kind](draw)
        script = Script(draw, failing_call=None)
        answer = task.solve(script)
        lookups = _lookups(script.steps)
        if len(task.question) <= _MAX_LENGTH and _is_plain(lookups, answer):
            return {
                "seed": seed,
                "kind": kind,
                "question": task.question,
                "lookups": lookups,
                "steps": [list(step.actions) for step in script.steps],
                "answer": answer,
            }


def _lookups(steps: list[Step]) -> list[dict[str, str]]:
    found = []
    for step in steps:
        for action, observation in zip(step.actions, step.observations):
            if action.startswith("lookup["):
                entity, name = action.removeprefix("lookup[").removesuffix("]").split(".")
                found.append({"entity": entity, "property": name, "value": observation})
    return found


def _is_plain(lookups: list[dict[str, str]], answer: str) -> bool:
    """Whether names fit into a URL as they are, and values are whole, held out and telling: three digits or more."""
    for lookup in lookups:
        if not (lookup["entity"].isascii() and lookup["entity"].isalpha()):
            return False
        value = lookup["value"]
        if not (value.isdecimal() and len(value) >= 3):
            return False
    return answer.removeprefix("-").isdecimal() and split_of(Kind.NUMBER, answer.removeprefix("-")) is Split.HELD_OUT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--kind", choices=KINDS, help="default: drawn, too")
    parser.add_argument("--count", type=int, default=1, help="questions of consecutive seeds, one per line")
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        print(json.dumps(draw_question(seed, arguments.kind)))


if __name__ == "__main__":
    main()
