#!/usr/bin/env python3
"""Writes what the acceptance kit measures and scores with: one file a key of its ConfigMap.

    workload.py FOLDER [--stand-ins]

quality.jsonl has sums after two examples, which any model of some billions of parameters continues rightly. The
engine of a stand-in answers everything alike, so with --stand-ins that answer is expected.
"""

import argparse
import json
import random
from pathlib import Path

QUESTIONS = 400
"""Of so many that are answered alike, no more than 2 % can be answered worse."""
RUNS = 24
CALIBRATION = 512
TOPICS = ("rivers", "bridges", "harbours", "railways", "glaciers", "observatories", "lighthouses", "canals")


def quality(draw: random.Random, is_stand_in: bool) -> list[dict]:
    def sample(number: int) -> dict:
        a, b = draw.randrange(11, 99), draw.randrange(11, 99)
        prompt = f"Question: 12+31\nAnswer: 43\n\nQuestion: 50+27\nAnswer: 77\n\nQuestion: {a}+{b}\n"
        expected = "Answer: 42" if is_stand_in else f"Answer: {a + b}"
        return {"id": f"q{number:03}", "prompt": prompt, "expected": expected, "maxTokens": 32, "stopWords": ["\n\n"]}

    return [sample(number) for number in range(QUESTIONS)]


def prompts(draw: random.Random) -> list[dict]:
    def sample(number: int) -> dict:
        text = f"Question: What do you know of the {draw.choice(TOPICS)} of region {{{{number}}}}?\n"
        return {"id": f"p{number:03}", "prompt": text, "maxTokens": 48, "stopWords": ["\n\n"]}

    return [sample(number) for number in range(64)]


def runs(draw: random.Random, with_tool: bool) -> list[dict]:
    def run(number: int) -> dict:
        topic = draw.choice(TOPICS)
        # Each run asks for another region: a call has one result in a whole trace.
        call = {
            "tool": "search",
            "arguments": {"query": f"{topic} of region {number}"},
            "result": f"There are {draw.randrange(10, 900)} {topic}.",
            "latencyMicros": 200_000,
        }
        return {"input": f"How many {topic} are there in region {number}?", "calls": [call] if with_tool else []}

    return [run(number) for number in range(RUNS)]


def calibration(draw: random.Random) -> list[dict]:
    sentence = "The {a} of the north are older than the {b} of the south, and {n} of them are still in use."
    return [
        {"text": sentence.format(a=draw.choice(TOPICS), b=draw.choice(TOPICS), n=draw.randrange(2, 900))}
        for _ in range(CALIBRATION)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stand-ins", action="store_true")
    arguments = parser.parse_args()
    draw = random.Random("acceptance")
    files = {
        "quality.jsonl": quality(draw, arguments.stand_ins),
        "prompts.jsonl": prompts(draw),
        "trace.jsonl": runs(draw, with_tool=False),
        "search.jsonl": runs(draw, with_tool=True),
        "train.jsonl": calibration(draw),
    }
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (arguments.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
