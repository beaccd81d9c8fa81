"""The torch runtime against what transformers made of the same checkpoints, on the CPU or on a GPU."""

import json
import os

import pytest

if not os.environ.get("SLIPWAY_TEST_TORCH"):
    pytest.skip("run by test.sh --torch, with a Python that has torch", allow_module_level=True)

import torch
from conftest import ROOT

from builder.evaluate import generate_all
from builder.generation.batcher import Batcher
from builder.generation.engine import load_engine
from builder.generation.request import GenerationRequest, checked_request
from builder.generation.torch_linear import Fp8, Int8, WeightOnly, quantized

LARGEST_DIFFERENCE = {"FP32": 1e-3, "FP16": 0.05, "INT8": 1.0, "FP8": 1.5}
"""Of a logit from transformers' in 32-bit floating point; logits reach 30."""
EIGHT_BITS = {"INT8": torch.int8, "FP8": torch.float8_e4m3fn}


@pytest.fixture(params=["react-512", "react-256"])
def record(request) -> tuple[str, list[dict]]:
    content = json.loads((ROOT / "tests" / "data" / f"transformers-{request.param}.json").read_text())
    return request.param, content["entries"]


def requests_of(network, entries: list[dict]) -> list[GenerationRequest]:
    return [
        checked_request(entry["prompt"].encode(), 200, [], network.vocabulary, network.context_length)
        for entry in entries
    ]


@pytest.mark.parametrize("precision", LARGEST_DIFFERENCE)
def test_logits_are_near_those_of_transformers(engine, record, precision):
    model, entries = record
    network = engine(model, precision, runtime="torch")
    for entry in entries:
        logits = network.decoder.logits(tuple(network.vocabulary.encode(entry["prompt"])))
        difference = (logits[entry["tokens"]] - torch.tensor(entry["logits"])).abs().max()
        assert difference <= LARGEST_DIFFERENCE[precision], entry["prompt"]


@pytest.mark.parametrize("precision", LARGEST_DIFFERENCE)
@pytest.mark.parametrize("weight_only", [0, 1])
def test_texts_are_those_of_transformers_in_batches_that_requests_join_and_leave(
    engine, record, precision, weight_only
):
    model, entries = record
    # Fewer rows than requests: rows are freed, moved and filled again meanwhile.
    network = engine(model, precision, n_rows=5, runtime="torch", weightOnly=weight_only)
    assert generate_all(Batcher(network), requests_of(network, entries)) == [entry["text"] for entry in entries]


def test_texts_do_not_depend_on_cuda_graphs(build, record):
    model, entries = record
    folder = build(model, "FP16", runtime="torch") / "agent" / "1"
    networks = [load_engine(folder, 5, n_threads=1, cuda_graphs=graphs) for graphs in (True, False)]
    texts = [generate_all(Batcher(network), requests_of(network, entries)) for network in networks]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("precision", "product"), [("INT8", Int8), ("FP8", Fp8), ("INT8", WeightOnly), ("FP8", WeightOnly)]
)
def test_products_of_eight_bits_are_near_the_exact_ones(precision, product):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn((96, 64), generator=generator)
    # Rows of very different magnitudes: each has a scale of its own.
    x = torch.randn((7, 64), generator=generator) * torch.logspace(-3, 3, 7)[:, None]
    exact = x @ weight.T
    error = (product(*quantized(weight, EIGHT_BITS[precision]))(x) - exact).norm(dim=1) / exact.norm(dim=1)
    assert error.max() < 0.06, error


def test_equal_builds_are_equal_byte_for_byte(build, tmp_path):
    from builder.options import read_build_task
    from builder.repository import build_repository

    task = tmp_path / "build.json"
    task.write_text(json.dumps({"precision": "FP8", "options": {"runtime": "torch"}}))
    again = build_repository(read_build_task(task), ROOT / "checkpoints" / "react-256", tmp_path)
    first = build("react-256", "FP8", runtime="torch") / "agent"
    names = sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert [(again / name).read_bytes() for name in names] == [(first / name).read_bytes() for name in names]
    assert "kind: KIND_MODEL" in (again / "config.pbtxt").read_text()


def test_an_engine_never_runs_on_the_cpu_of_a_container_that_was_given_a_gpu(build, monkeypatch):
    folder = build("react-256", "FP16", runtime="torch") / "agent" / "1"
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "GPU-3f2b7a5c")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="sees no GPU, but the container has GPU-3f2b7a5c$"):
        load_engine(folder, 1, n_threads=1)
