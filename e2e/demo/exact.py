#!/usr/bin/env python3
"""Asks an agent questions that its model has never seen, and counts the answers that are right to the character.

    exact.py --services URL [--count 200] [--at-least 95] [--in-flight 4] [--seed 22000] [--output FILE]

URL is where the cluster's services are reached, as in http://127.0.0.1:8001/api/v1/namespaces/NAME/services. The
questions come from the held-out half of the model's corpus: names, numbers and phrasings that no training text has.
The look-up service learns what they ask for before the first one is asked.

Ends with 1 when fewer than --at-least percent are right.
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
from questions import draw_question  # noqa: E402

_ANSWER_SECONDS = 120
_BUSY_SECONDS = 60
"""For how long a question that is refused for want of room is asked again."""
_SHOWN = 5
"""Wrong answers that are printed."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The services are behind a process of this machine, whatever proxies its environment names."""


@dataclass
class Result:
    """What became of a question."""

    seed: int
    kind: str
    question: str
    expected: str
    answer: str | None
    problem: str | None
    milliseconds: int

    @property
    def is_exact(self) -> bool:
        return self.answer == self.expected


def draw(seed: int, count: int) -> list[dict]:
    """Returns so many questions. One that needs another value for a fact of an earlier one is left out."""
    facts: dict[tuple[str, str], str] = {}
    drawn: list[dict] = []
    while len(drawn) < count:
        question = draw_question(seed)
        seed += 1
        own = {(each["entity"], each["property"]): each["value"] for each in question["lookups"]}
        if all(facts.get(key, value) == value for key, value in own.items()):
            facts.update(own)
            drawn.append(question)
    return drawn


def send(url: str, body: dict, method: str) -> bytes:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    with _OPENER.open(request, timeout=_ANSWER_SECONDS) as response:
        return response.read()


def teach(facts: str, question: dict) -> None:
    for fact in question["lookups"]:
        send(f"{facts}/facts/{fact['entity']}/{fact['property']}", {"value": int(fact["value"])}, "PUT")


def ask_once(agent: str, question: str) -> tuple[str | None, str | None]:
    """Returns the answer, or why there is none."""
    began = time.monotonic()
    while True:
        try:
            run = json.loads(send(f"{agent}/v1/runs", {"input": question}, "POST"))
            return run.get("answer"), (run.get("error") or {}).get("message")
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")[:300]
            # The agent has as many runs in flight as it takes.
            if error.code != 429 or time.monotonic() - began > _BUSY_SECONDS:
                return None, f"status {error.code}: {text}"
            time.sleep(1)
        except (OSError, ValueError) as error:
            return None, f"no answer: {error}"


def ask(agent: str, question: dict) -> Result:
    began = time.monotonic()
    answer, problem = ask_once(agent, question["question"])
    milliseconds = round((time.monotonic() - began) * 1000)
    return Result(
        question["seed"], question["kind"], question["question"], question["answer"], answer, problem, milliseconds
    )


def summary(results: list[Result], at_least: float) -> dict:
    """Returns the figures that a report takes."""
    times = sorted(result.milliseconds for result in results if result.answer is not None)
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))] if times else None  # noqa: E731
    exact = sum(result.is_exact for result in results)
    return {
        "asked": len(results),
        "exact": exact,
        "exactPercent": round(100 * exact / len(results), 2),
        "atLeastPercent": at_least,
        "unanswered": sum(result.answer is None for result in results),
        "millisecondsP50": at(0.5),
        "millisecondsP95": at(0.95),
    }


def show(results: list[Result], figures: dict) -> None:
    kinds = Counter(result.kind for result in results)
    exact = Counter(result.kind for result in results if result.is_exact)
    for kind, count in sorted(kinds.items()):
        print(f"{kind:24} {exact[kind]}/{count}")
    for result in [result for result in results if not result.is_exact][:_SHOWN]:
        said = f"said {result.answer!r}" if result.problem is None else result.problem
        print(f"--- {result.question}\n    expected {result.expected!r}, {said}")
    print(
        f"{figures['exact']} of {figures['asked']} answers exact ({figures['exactPercent']} %), "
        f"{figures['unanswered']} without an answer; p50 {figures['millisecondsP50']} ms, "
        f"p95 {figures['millisecondsP95']} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", required=True)
    parser.add_argument("--agent", default="facts-agent")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--at-least", type=float, default=95)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--seed", type=int, default=22_000)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.count < 1 or arguments.in_flight < 1:
        parser.error("--count and --in-flight must be at least 1")
    questions = draw(arguments.seed, arguments.count)
    facts, agent = (f"{arguments.services}/{name}:80/proxy" for name in ("facts", arguments.agent))
    with ThreadPoolExecutor(arguments.in_flight) as pool:
        try:
            list(pool.map(lambda question: teach(facts, question), questions))
        except OSError as error:
            sys.exit(f"exact.py: the look-up service behind {facts} takes no facts: {error}")
        results = list(pool.map(lambda question: ask(agent, question), questions))
    figures = summary(results, arguments.at_least)
    show(results, figures)
    if arguments.output:
        wrong = [asdict(result) for result in results if not result.is_exact]
        arguments.output.write_text(json.dumps({**figures, "wrong": wrong}, indent=1) + "\n")
    if figures["exactPercent"] < arguments.at_least:
        sys.exit(f"exact.py: fewer than {arguments.at_least:g} % of the answers are exact")


if __name__ == "__main__":
    main()
