"""The language the model is trained on and judged by."""

import json
import random
import re
import subprocess
import sys

import pytest
from conftest import ROOT

from builder.generation.tokens import EOS, tokenizer_json
from corpus.episodes import draw_episode, numbers_of
from corpus.split import Kind, Split, split_of
from questions import KINDS, draw_question

N_EPISODES = 400


def drawn(split: Split):
    rng = random.Random("disjoint")
    return [draw_episode(rng, split, 766) for _ in range(N_EPISODES)]


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
    episode = draw_episode(random.Random(4), Split.HELD_OUT, 766)
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


def test_the_stored_tokenizers_are_the_code_s():
    for model in ("react-512", "react-256"):
        stored = json.loads((ROOT / "checkpoints" / model / "tokenizer.json").read_text())
        assert stored == tokenizer_json()


def test_the_model_is_taught_to_stop_after_each_completion():
    from training.dataset import COMPLETION, encode_episode

    episode = draw_episode(random.Random(5), Split.TRAINING, 766)
    tokens, labels, roles = encode_episode(episode, None)
    written = [label for label, role in zip(labels, roles) if role == COMPLETION]
    expected = [label for _, completion in episode.model_calls() for label in [*completion.encode(), EOS]]
    assert bytes(tokens[1:]).decode() == episode.text()
    assert written == expected


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
