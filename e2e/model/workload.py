"""Writes the demo's traffic: what is asked of an engine, of a whole agent, and what an engine is judged by.

    python3 workload.py --output ../manifests/demo/workload
    python3 workload.py --check DIR/model_repository      # plays every recorded run on a built engine

`prompts.jsonl`: model calls of agent runs, first and later ones, with `{{word}}` and `{{number}}` where a name or a number
occurs only once, so that every request's body is unique. `trace.jsonl`: whole runs, each with its look-ups, their results
and latencies (drawn, not recorded from a real service). `quality.jsonl`: held-out calls with the expected texts.
Names and numbers are held out, too; the same seed gives the same bytes.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from corpus.script import printed
from quality_set import MAX_TOKENS, STOP_WORD, draw_samples
from questions import draw_question

N_PROMPTS = 300
N_RUNS = 400
N_SAMPLES = 400
_FIRST_SEED = 100_000
"""Far from the seeds that end-to-end tests ask by."""
_LATENCIES_MILLISECONDS = (2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10, 13, 18, 30)
"""What look-ups take: a median of 5 to 6 ms with a tail, as of a service in the same cluster."""
_CALL = re.compile(r"(\w+)\[(.*)\]")
_WHOLE_EXPRESSION = re.compile(r"[0-9+*()-]+")


@dataclass(frozen=True)
class ModelCall:
    """One call of a run: its prompt, what the model has to write, and what only this prompt's last lines hold."""

    prompt: str
    expected: str
    last_observations: tuple[str, ...]


def model_calls(question: dict) -> Iterator[ModelCall]:
    """Yields the calls of a question's run as the agent runtime makes them; without a system prompt."""
    values = {f"{lookup['entity']}.{lookup['property']}": lookup["value"] for lookup in question["lookups"]}
    prompt, observations = f"Question: {question['question']}\n", ()
    for actions in question["steps"]:
        expected = "".join(f"Action: {action}\n" for action in actions)
        yield ModelCall(prompt, expected.removesuffix("\n"), observations)
        observations = tuple(observed(action, values) for action in actions)
        prompt += expected + "\n" + "".join(f"Observation: {observation}\n" for observation in observations)
    yield ModelCall(prompt, f"Answer: {question['answer']}", observations)


def observed(action: str, values: dict[str, str]) -> str:
    """Returns what a call answers: a look-up's value, or an expression's of whole numbers."""
    tool, argument = _CALL.fullmatch(action).groups()
    if tool == "lookup":
        return values[argument]
    if not _WHOLE_EXPRESSION.fullmatch(argument):
        raise ValueError(f"{action} is not of whole numbers")
    return printed(Fraction(eval(argument, {"__builtins__": {}})), 0)


def questions(count: int, first_seed: int) -> Iterator[dict]:
    """Yields `count` different questions, none of which contradicts another one's look-ups."""
    asked: set[str] = set()
    values: dict[tuple[str, str], str] = {}
    seed = first_seed
    while len(asked) < count:
        question = draw_question(seed)
        seed += 1
        looked_up = {(lookup["entity"], lookup["property"]): lookup["value"] for lookup in question["lookups"]}
        is_consistent = all(values.get(key, value) == value for key, value in looked_up.items())
        if question["question"] in asked or not is_consistent:
            continue
        asked.add(question["question"])
        values |= looked_up
        yield question


def prompt_lines() -> Iterator[dict]:
    """Yields the prompts, with a placeholder for each name or number that would be copied but occurs only once."""
    rng = random.Random("prompts")
    for index, question in enumerate(questions(N_PROMPTS, _FIRST_SEED)):
        calls = list(model_calls(question))
        call = calls[int(rng.random() * len(calls))]
        yield {
            "id": f"p{index:04d}",
            "prompt": with_placeholders(call, [lookup["entity"] for lookup in question["lookups"]]),
            "maxTokens": MAX_TOKENS,
            "stopWords": [STOP_WORD],
        }


def with_placeholders(call: ModelCall, names: list[str]) -> str:
    """Replaces names in a first call, last observations in a later one: what every request may have of its own.

    A name that the transcript repeats stays, for each placeholder is drawn by itself.
    """
    if call.last_observations:
        kept = call.prompt.splitlines(keepends=True)[: -len(call.last_observations)]
        return "".join(kept) + "Observation: {{number}}\n" * len(call.last_observations)
    prompt = call.prompt
    for name in set(names):
        whole_word = re.compile(rf"\b{name}\b")
        if len(whole_word.findall(prompt)) == 1:
            prompt = whole_word.sub("{{word}}", prompt)
    return prompt


def trace_lines() -> Iterator[dict]:
    """Yields the runs with the look-ups that they make; calculations need no record, the runtime does them itself."""
    rng = random.Random("trace")
    for question in questions(N_RUNS, _FIRST_SEED + 1_000_000):
        yield {
            "input": question["question"],
            "calls": [
                {
                    "tool": "lookup",
                    "arguments": {"entity": lookup["entity"], "property": lookup["property"]},
                    "result": lookup["value"],
                    "latencyMicros": latency_micros(rng),
                }
                for lookup in question["lookups"]
            ],
        }


def latency_micros(rng: random.Random) -> int:
    """Draws how long a look-up takes."""
    base = _LATENCIES_MILLISECONDS[int(rng.random() * len(_LATENCIES_MILLISECONDS))]
    return 1000 * base + int(rng.random() * 1000)


def mistakes(repository: Path, every: int = 1) -> list[str]:
    """Plays every `every`-th recorded run on an engine; returns the prompts after which it wrote something else.

    With no mistake, the calls made are exactly those recorded.
    """
    # Imported here, since writing the files needs the standard library only.
    from builder.evaluate import generate_all
    from builder.generation.batcher import Batcher
    from builder.generation.engine import load_engine
    from builder.generation.request import checked_request

    engine = load_engine(repository / "agent" / "1", n_rows=32, n_threads=1)
    runs = list(questions(N_RUNS, _FIRST_SEED + 1_000_000))[::every]
    calls = [call for question in runs for call in model_calls(question)]
    requests = [
        checked_request(
            call.prompt.encode(), MAX_TOKENS, [STOP_WORD.encode()], engine.vocabulary, engine.context_length
        )
        for call in calls
    ]
    texts = generate_all(Batcher(engine), requests)
    return [call.prompt for call, text in zip(calls, texts) if text != call.expected]


def files() -> dict[str, str]:
    """Returns the content of each file."""
    content = {"prompts.jsonl": prompt_lines(), "trace.jsonl": trace_lines(), "quality.jsonl": draw_samples(N_SAMPLES, 1)}
    return {
        name: "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines) for name, lines in content.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--output", type=Path, help="the folder to write to")
    action.add_argument("--check", type=Path, help="the model repository of a built engine")
    arguments = parser.parse_args()
    if arguments.check:
        wrong = mistakes(arguments.check)
        print(f"{len(wrong)} calls of {N_RUNS} runs differ from the record", *wrong, sep="\n--- ")
        raise SystemExit(bool(wrong))
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (arguments.output / name).write_text(text)


if __name__ == "__main__":
    main()
