"""The demo's traffic: the committed files are what the code writes, and what the engines really do."""

import json

import pytest
from conftest import ROOT

import workload
from workload import ModelCall, files, mistakes, model_calls, with_placeholders

FOLDER = ROOT.parent / "manifests" / "demo" / "workload"
CONFIG_MAP_LIMIT = 900 * 1024


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def test_the_committed_files_are_what_the_code_writes():
    written = files()
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == written
    assert all(len(text.encode()) < CONFIG_MAP_LIMIT for text in written.values())


def test_no_question_is_asked_twice_and_no_call_has_two_results():
    runs = lines("trace.jsonl")
    assert len({run["input"] for run in runs}) == len(runs) == 400
    results: dict[tuple[str, str], str] = {}
    for call in (call for run in runs for call in run["calls"]):
        key = (call["arguments"]["entity"], call["arguments"]["property"])
        assert results.setdefault(key, call["result"]) == call["result"]
        assert call["tool"] == "lookup" and 2_000 <= call["latencyMicros"] < 31_000


def test_every_prompt_leaves_something_to_draw_and_first_and_later_calls_occur():
    prompts = [line["prompt"] for line in lines("prompts.jsonl")]
    assert all("{{word}}" in prompt or "{{number}}" in prompt for prompt in prompts)
    n_later = sum("Observation:" in prompt for prompt in prompts)
    assert 100 < n_later < 250


@pytest.mark.parametrize(
    ("call", "prompt"),
    [
        (ModelCall("Question: Bela's and Celo's age?\n", "", ()), "Question: {{word}}'s and {{word}}'s age?\n"),
        (ModelCall("Question: Bela against Bela?\n", "", ()), "Question: Bela against Bela?\n"),
        (
            ModelCall("Question: q\nAction: a\n\nObservation: 7\nAction: b\n\nObservation: 7\n", "", ("7",)),
            "Question: q\nAction: a\n\nObservation: 7\nAction: b\n\nObservation: {{number}}\n",
        ),
    ],
)
def test_only_what_the_transcript_does_not_repeat_is_drawn_anew(call, prompt):
    assert with_placeholders(call, ["Bela", "Celo"]) == prompt


def test_an_engine_makes_the_calls_that_are_recorded(build):
    assert mistakes(build("react-512", "INT8"), every=20) == []


def test_a_call_that_is_not_recorded_is_noticed(build, monkeypatch):
    def other_calls(question: dict):
        return [ModelCall(call.prompt, call.expected + "0", ()) for call in model_calls(question)][:1]

    monkeypatch.setattr(workload, "model_calls", other_calls)
    assert len(mistakes(build("react-512", "INT8"), every=100)) == 4
