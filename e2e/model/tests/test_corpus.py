"""The language the model is trained on and judged by."""

import json
import random
import re
import subprocess
import sys

import pytest
from conftest import ROOT

from corpus.episodes import MAX_BYTES, draw_episode, numbers_of
from corpus.split import Kind, Split, split_of
from questions import KINDS, draw_question

N_EPISODES = 400


def drawn(split: Split):
    rng = random.Random("disjoint")
    return [draw_episode(rng, split, MAX_BYTES) for _ in range(N_EPISODES)]


@pytest.fixture(scope="module")
def training():
    return drawn(Split.TRAINING)


@pytest.fixture(scope="module")
def held_out():
    return drawn(Split.HELD_OUT)


def entities(episodes) -> set[str]:
    """Returns the words of all entities that are looked up."""
    targets = re.findall(r"Action: lookup\[([^\]]+)\.[^\].]+\]\n", "".join(episode.text() for episode in episodes))
    return {word for target in targets for word in target.split()}


def test_no_number_of_a_held_out_episode_can_occur_in_training(training, held_out):
    seen = set().union(*(numbers_of(episode.text()) for episode in training))
    judged = set().union(*(numbers_of(episode.text()) for episode in held_out))
    assert len(seen) > 500 and len(judged) > 200
    assert seen & judged == set()
    # By construction, and not by luck of these draws:
    assert {split_of(Kind.NUMBER, number) for number in seen} == {Split.TRAINING}
    assert {split_of(Kind.NUMBER, number) for number in judged} == {Split.HELD_OUT}


def test_no_name_of_a_held_out_episode_can_occur_in_training(training, held_out):
    seen, judged = entities(training), entities(held_out)
    assert len(seen) > 300 and len(judged) > 300
    assert {split_of(Kind.NAME, name) for name in seen} == {Split.TRAINING}
    assert {split_of(Kind.NAME, name) for name in judged} == {Split.HELD_OUT}


def test_no_question_of_a_held_out_episode_occurs_in_training(training, held_out):
    seen = {turn.question for episode in training for turn in episode.turns}
    judged = {turn.question for episode in held_out for turn in episode.turns}
    # Questions without name and number, as "And its area?", can differ by their phrasing alone.
    assert seen & judged == set()


def test_an_episode_is_its_calls_in_order():
    episode = draw_episode(random.Random(4), Split.HELD_OUT, MAX_BYTES)
    calls = list(episode.model_calls())
    assert all(completion.endswith("\n\n") for _, completion in calls)
    assert all(later.startswith(prompt + completion) for (prompt, completion), (later, _) in zip(calls, calls[1:]))
    assert calls[-1][0] + calls[-1][1] == episode.text()


def test_a_failed_call_is_answered_by_its_error_and_never_by_a_number(held_out):
    failed = [turn for episode in held_out for turn in episode.turns if turn.answer.startswith("error: ")]
    assert len(failed) > 20
    for turn in failed:
        observations = turn.steps[-1].observations
        assert turn.answer == next(text for text in observations if text.startswith("error: "))


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_s_answer_follows_from_its_look_ups(kind):
    question = draw_question(seed=11, kind=kind)
    values = {f"{look['entity']}.{look['property']}": look["value"] for look in question["lookups"]}
    result = None
    for step in question["steps"]:
        for call in step:
            tool, argument = re.fullmatch(r"(lookup|calc)\[(.*)\]", call).groups()
            result = values[argument] if tool == "lookup" else str(eval(argument, {"__builtins__": {}}))
    assert result == question["answer"]
    assert all(split_of(Kind.NAME, look["entity"]) is Split.HELD_OUT for look in question["lookups"])


def test_questions_need_nothing_but_the_standard_library():
    command = [sys.executable, "-S", str(ROOT / "questions.py"), "--seed", "3", "--count", "2"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [draw_question(3), draw_question(4)]
