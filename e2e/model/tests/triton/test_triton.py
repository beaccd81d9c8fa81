"""The engine in a real Triton server, over gRPC streams."""

import os

import pytest

if not os.environ.get("SLIPWAY_TEST_TRITON"):
    pytest.skip("run by test.sh --triton, which installs Triton", allow_module_level=True)

import json
import re

import tritonclient.grpc as grpc
from client import Generation, Piece
from server import TritonServer
from tritonclient.utils import InferenceServerException

from corpus.judged import held_out_transcripts

LOOKUP = "System: Be brief.\nQuestion: What is the total area of Rema and Tovu?\n"
LOOKUP_CALLS = "Action: lookup[Rema.area]\nAction: lookup[Tovu.area]"
ERROR = "error sending request for url (http://lookup-facts.region.svc:8080/v1/Rema/area) after all tries"
LOOKUP_TOKENS, ERROR_TOKENS = 28, 60
"""Tokens of the two calls with the line ends behind them, and at least so many of the error."""
LONG = f"Question: What is the area of Rema?\nAction: lookup[Rema.area]\n\nObservation: error: {ERROR}\n"
"""A prompt whose answer repeats the error: more than a hundred tokens."""


@pytest.fixture(scope="module")
def triton(build, tmp_path_factory):
    with TritonServer(build("react-256", "FP32", maxBatchSize=4), tmp_path_factory.mktemp("triton")) as server:
        yield server


@pytest.fixture(scope="module")
def slow_triton(build, tmp_path_factory):
    """A server that generates one request at a time, eleven times slower, so that there is time to cancel."""
    repository = build("react-256", "FP32", maxBatchSize=1, extraComputePercent=1000, streamInterval=1)
    with TritonServer(repository, tmp_path_factory.mktemp("slow")) as server:
        yield server


def test_a_stream_of_pieces_adds_up_to_the_text(triton):
    pieces = Generation(triton.grpc, LOOKUP).pieces()
    assert len(pieces) > 5
    assert "".join(piece.text for piece in pieces) == LOOKUP_CALLS
    assert [piece.finish_reason for piece in pieces] == [""] * (len(pieces) - 1) + ["stop"]
    assert [piece.is_final for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    counts = [piece.output_tokens for piece in pieces]
    assert counts == sorted(set(counts)) and counts[0] == 1 and counts[-1] == LOOKUP_TOKENS


@pytest.mark.parametrize("stream", [False, None])
def test_without_streaming_the_text_comes_once_and_whole(triton, stream):
    pieces = Generation(triton.grpc, LOOKUP, stream=stream).pieces()
    assert pieces == [Piece(LOOKUP_CALLS, "stop", LOOKUP_TOKENS, is_final=True)]


def test_without_stop_words_the_model_ends_by_itself(triton):
    assert Generation(triton.grpc, LOOKUP, stop_words=None).text() == LOOKUP_CALLS + "\n\n"


def test_max_tokens_ends_with_length(triton):
    pieces = Generation(triton.grpc, LOOKUP, max_tokens=4, stream=False).pieces()
    assert pieces == [Piece("Action: lookup", "length", 4, is_final=True)]


def test_a_failed_tool_is_answered_by_its_error(triton):
    assert Generation(triton.grpc, LONG).text() == f"Answer: error: {ERROR}"


def test_a_later_request_is_answered_beside_an_earlier_one(triton):
    long = Generation(triton.grpc, LONG)
    long.next_piece()
    short = Generation(triton.grpc, LOOKUP).pieces()
    rest = long.pieces()
    assert "".join(piece.text for piece in short) == LOOKUP_CALLS
    assert rest[-1].finish_reason == "stop"


def test_texts_are_the_same_alone_and_under_load(triton):
    prompts = [prompt for episode in held_out_transcripts("react", 8, 5) for prompt, _ in episode.model_calls()][:16]
    alone = [Generation(triton.grpc, prompt).text() for prompt in prompts]
    together = [Generation(triton.grpc, prompt) for prompt in prompts]
    assert [generation.text() for generation in together] == alone


def test_a_broken_off_stream_stops_generation_and_frees_its_row(slow_triton):
    cancelled = Generation(slow_triton.grpc, LONG)
    cancelled.next_piece()
    waiting = Generation(slow_triton.grpc, LOOKUP)
    cancelled.cancel()
    assert waiting.text() == LOOKUP_CALLS
    # There is one row, and the model says in its log at which token it stopped the request that held it.
    n_tokens = int(re.search(r"cancelled after (\d+) tokens", slow_triton.log()).group(1))
    assert 1 <= n_tokens < ERROR_TOKENS


@pytest.mark.parametrize(
    ("request_inputs", "message"),
    [
        ({"text": ""}, "text_input: the prompt is empty; send at least one character"),
        (
            {"text": "?" * 2100},
            "text_input: the prompt has 2100 tokens, the model's context holds 2048 with the answer",
        ),
        ({"text": "x", "max_tokens": 0}, "max_tokens: must be at least 1, got 0"),
        ({"text": "x", "stop_words": (b"",)}, "stop_words: a stop word is empty; leave it out"),
    ],
)
def test_a_bad_request_is_answered_by_the_name_of_its_input(triton, request_inputs, message):
    with pytest.raises(InferenceServerException) as error:
        Generation(triton.grpc, **request_inputs).pieces()
    assert message in str(error.value)


def test_instances_of_the_configuration_are_started_and_bad_parameters_refused(triton):
    client = grpc.InferenceServerClient(triton.grpc)
    config = client.get_model_config("agent", as_json=True)["config"]
    config["instance_group"][0]["count"] = 2
    client.load_model("agent", config=json.dumps(config))
    triton.wait_for_stub_processes(2)
    assert Generation(triton.grpc, LOOKUP).text() == LOOKUP_CALLS
    config["parameters"]["max_batch"]["string_value"] = "many"
    message = "parameter max_batch: expected an integer of at least 1, got 'many'"
    with pytest.raises(InferenceServerException, match=message):
        client.load_model("agent", config=json.dumps(config))
