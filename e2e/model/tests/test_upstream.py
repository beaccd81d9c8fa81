"""The engines against what transformers made of the same checkpoints (`upstream/with_transformers.py`)."""

import json

import numpy as np
import pytest
from conftest import ROOT

from builder.checkpoint import read_safetensors
from builder.evaluate import generate_all
from builder.generation.batcher import Batcher
from builder.generation.request import checked_request

TOLERANCE = 1e-3
"""Largest difference of a logit between two implementations in 32-bit floating point; logits reach 30."""


@pytest.fixture(params=["react-512", "react-256"])
def record(request) -> tuple[str, list[dict]]:
    content = json.loads((ROOT / "tests" / "data" / f"transformers-{request.param}.json").read_text())
    return request.param, content["entries"]


def test_logits_are_those_of_transformers(engine, record):
    model, entries = record
    network = engine(model, "FP32")
    for entry in entries:
        logits = network.decoder.logits(tuple(network.vocabulary.encode(entry["prompt"])))
        assert np.abs(logits[entry["tokens"]] - entry["logits"]).max() <= TOLERANCE, entry["prompt"]
        assert np.argsort(-logits)[0] == entry["tokens"][0]


def test_texts_are_those_of_transformers(engine, record):
    model, entries = record
    network = engine(model, "FP32")
    requests = [
        checked_request(entry["prompt"].encode(), 200, [], network.vocabulary, network.context_length)
        for entry in entries
    ]
    assert generate_all(Batcher(network), requests) == [entry["text"] for entry in entries]


@pytest.mark.parametrize("model", ["react-512", "react-256"])
def test_tensors_have_the_names_and_shapes_of_a_llama(model):
    folder = ROOT / "checkpoints" / model
    config = json.loads((folder / "config.json").read_text())
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    n_query, n_key = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    expected = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for index in range(config["num_hidden_layers"]):
        of_layer = {
            "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
            "self_attn.q_proj": [n_query, hidden], "self_attn.k_proj": [n_key, hidden],
            "self_attn.v_proj": [n_key, hidden], "self_attn.o_proj": [hidden, n_query],
            "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner],
        }
        expected |= {f"model.layers.{index}.{name}.weight": shape for name, shape in of_layer.items()}
    tensors = read_safetensors(folder / "model.safetensors")
    assert {name: list(tensor.shape) for name, tensor in tensors.items()} == expected
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.uint16)}
    assert (config["architectures"], config["model_type"], config["torch_dtype"], config["tie_word_embeddings"]) == (
        ["LlamaForCausalLM"], "llama", "bfloat16", True,
    )
