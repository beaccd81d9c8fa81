"""The builder container's verbs, their files and their complaints."""

import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from builder.checkpoint import CheckpointError, as_float32, read_checkpoint, read_safetensors
from builder.options import BuildTask, OptionError, read_build_task

MODEL = ROOT / "checkpoints" / "react-256"


@pytest.fixture
def container(tmp_path):
    """Lays the container's mounts out and returns a function that runs a verb there."""
    (tmp_path / "checkpoint").symlink_to(MODEL)
    (tmp_path / "task").mkdir()

    def run(verb: str, **files: str) -> subprocess.CompletedProcess:
        for name, content in files.items():
            (tmp_path / "task" / name.replace("_", ".")).write_text(content)
        command = [sys.executable, "-m", "builder", verb, "--root", str(tmp_path)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    run.root = tmp_path
    return run


def digests(folder) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_committed_weights_are_those_that_were_trained():
    lines = (ROOT / "checkpoints" / "SHA256SUMS").read_text().splitlines()
    expected = {name: digest for digest, name in (line.split() for line in lines)}
    committed = digests(ROOT / "checkpoints")
    del committed["SHA256SUMS"]
    assert committed == expected
    assert sum((ROOT / "checkpoints" / name).stat().st_size for name in committed) <= 24_000_000


def test_build_writes_a_complete_repository_and_its_report(container):
    result = container("build", build_json='{"precision": "INT8", "options": {"instances": "2", "maxBatchSize": "8"}}')
    assert (result.returncode, result.stderr) == (0, "")
    repository = container.root / "output" / "model_repository"
    assert sorted(digests(repository)) == [
        "agent/1/generation/__init__.py", "agent/1/generation/batcher.py", "agent/1/generation/buckets.py",
        "agent/1/generation/decoder.py", "agent/1/generation/engine.py", "agent/1/generation/onnx_decoder.py",
        "agent/1/generation/request.py", "agent/1/generation/text.py", "agent/1/generation/tokens.py",
        "agent/1/generation/torch_decoder.py", "agent/1/generation/torch_linear.py",
        "agent/1/generation/torch_network.py", "agent/1/model.onnx", "agent/1/model.py", "agent/1/tokenizer.json",
        "agent/config.pbtxt",
    ]
    config = (repository / "agent" / "config.pbtxt").read_text()
    assert "decoupled: true" in config and "instance_group [ { count: 2 kind: KIND_CPU } ]" in config
    parameters = dict(re.findall(r'key: "(\w+)" value \{ string_value: "(\w+)" \}', config))
    assert parameters == {
        "precision": "INT8", "max_batch": "8", "threads": "1", "stream_interval": "4",
        "extra_compute_percent": "0", "execute_delay_milliseconds": "0",
    }
    report = json.loads((container.root / "output" / "builder.json").read_text())
    assert set(report) == {"versions", "durationsMillis"} and report["versions"]["onnxruntime"]


def test_equal_builds_are_equal_byte_for_byte(container):
    builds = []
    for _ in range(2):
        assert container("build", build_json='{"precision": "FP32"}').returncode == 0
        builds.append(digests(container.root / "output" / "model_repository"))
    assert builds[0] == builds[1]


def test_evaluate_answers_each_line_in_order(container):
    samples = [
        {"id": "b", "prompt": "Question: What is the area of Rema?\n", "maxTokens": 60, "stopWords": ["\n\n"]},
        {"id": "a", "prompt": "System: Be brief.\nQuestion: 12+30?\n", "maxTokens": 60, "stopWords": ["\n\n"]},
        {"id": "c", "prompt": "Question: 12+30?\n", "maxTokens": 3},
    ]
    assert container("build", build_json='{"precision": "FP32"}').returncode == 0
    result = container("evaluate", quality_jsonl="\n".join(map(json.dumps, samples)))
    assert (result.returncode, result.stderr) == (0, "")
    lines = (container.root / "output" / "quality" / "outputs.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "b", "output": "Action: lookup[Rema.area]"},
        {"id": "a", "output": "Action: calc[12+30]"},
        {"id": "c", "output": "Action: "},
    ]


def test_the_runtime_leaves_nothing_in_the_home_folder(container, monkeypatch):
    home = container.root / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert container("build", build_json='{"precision": "FP32"}').returncode == 0
    sample = {"id": "a", "prompt": "Question: 12+30?\n", "maxTokens": 2}
    assert container("evaluate", quality_jsonl=json.dumps(sample)).returncode == 0
    # ONNX Runtime's telemetry would have put its device's identity and its queue there.
    assert list(home.rglob("*")) == []


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("{", "build.json cannot be read: Expecting property name"),
        ("[]", "build.json: expected an object"),
        ("{}", "precision: expected one of FP32, INT8, got None"),
        ('{"precision": "FP8"}', "precision: expected one of FP32, INT8, got 'FP8'"),
        (
            '{"precision": "BF16", "options": {"runtime": "torch"}}',
            "precision: expected one of FP32, FP16, INT8, FP8, got 'BF16'",
        ),
        (
            '{"precision": "FP16", "options": {"runtime": "jax"}}',
            "options.runtime: expected one of onnx, torch, got 'jax'",
        ),
        ('{"precision": "FP32", "options": {"cudaGraphs": 0}}', "unknown option cudaGraphs; known are maxBatchSize,"),
        (
            '{"precision": "FP8", "options": {"runtime": "torch", "weightOnly": 2}}',
            "options.weightOnly: expected an integer from 0 to 1, got 2",
        ),
        ('{"precision": "FP32", "batch": 1}', "unknown field batch; known are precision, variant, options"),
        (
            '{"precision": "FP32", "variant": "../x"}',
            "variant: expected the name of a folder of the checkpoint, got '../x'",
        ),
        ('{"precision": "FP32", "options": {"batch": 1}}', "unknown option batch; known are maxBatchSize, instances,"),
        (
            '{"precision": "FP32", "options": {"instances": 0}}',
            "options.instances: expected an integer from 1 to 16, got 0",
        ),
        (
            '{"precision": "FP32", "options": {"threads": "two"}}',
            "options.threads: expected an integer from 1 to 64, got two",
        ),
    ],
)
def test_a_bad_task_is_refused_by_the_name_of_its_field(tmp_path, task, message):
    path = tmp_path / "build.json"
    path.write_text(task)
    with pytest.raises(OptionError) as error:
        read_build_task(path)
    assert str(error.value).startswith(message)


def test_a_variant_may_be_named_among_the_options_too(tmp_path):
    path = tmp_path / "build.json"
    path.write_text('{"precision": "FP32", "variant": "small", "options": {"variant": "small", "threads": "2"}}')
    task = read_build_task(path)
    assert (task.variant, task.options["threads"]) == ("small", 2)


def test_an_unknown_variant_is_refused_with_those_there_are(container):
    (container.root / "checkpoint").unlink()
    (container.root / "checkpoint").symlink_to(ROOT / "checkpoints")
    result = container("build", build_json='{"precision": "FP32", "variant": "tiny"}')
    message = "error: variant tiny has no config.json; its variants are react-256, react-512\n"
    assert (result.returncode, result.stderr) == (1, message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "quality.jsonl, line 1: Expecting property name"),
        ('{"prompt": "x", "maxTokens": 1}', "quality.jsonl, line 1: id is missing"),
        ('{"id": "a", "prompt": "x"}', "quality.jsonl, line 1: maxTokens is missing"),
        ('{"id": "a", "prompt": "", "maxTokens": 1}', "quality.jsonl, line 1: prompt: the prompt is empty"),
        ('{"id": "a", "prompt": "x", "maxTokens": 0}', "quality.jsonl, line 1: maxTokens: must be at least 1, got 0"),
        ("", "quality.jsonl is empty"),
    ],
)
def test_a_bad_quality_set_is_refused_by_line_and_field(tmp_path, engine, line, message):
    from builder.evaluate import QualitySetError, read_quality_set

    path = tmp_path / "quality.jsonl"
    path.write_text(line)
    with pytest.raises(QualitySetError) as error:
        read_quality_set(path, engine("react-256", "FP32"))
    assert str(error.value).startswith(message)


def test_evaluate_without_an_engine_says_where_it_looked(container):
    result = container("evaluate", quality_jsonl="{}")
    where = container.root / "output" / "model_repository" / "agent" / "1"
    assert (result.returncode, result.stderr) == (1, f"error: there is no engine to evaluate in {where}\n")


@pytest.fixture
def copied(tmp_path):
    """Copies the checkpoint, to be damaged."""
    return shutil.copytree(MODEL, tmp_path / "checkpoint")


def test_a_cut_off_shard_is_refused(copied):
    shard = next(copied.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:100_000])
    with pytest.raises(CheckpointError, match=r"model.safetensors is cut off within tensor model\."):
        read_checkpoint(copied)


def test_a_missing_shard_is_noticed(copied):
    next(copied.glob("*.safetensors")).unlink()
    with pytest.raises(CheckpointError, match=r"holds no \*.safetensors file"):
        read_checkpoint(copied)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "config.json: model_type is 'gpt2', this builder takes 'llama'"),
        ({"attention_bias": True}, "config.json: attention_bias is True, this builder takes False"),
        (
            {"rope_scaling": {"rope_type": "llama3"}},
            "config.json: rotary positions are of type 'llama3', this builder takes 'default'",
        ),
    ],
)
def test_a_model_of_another_architecture_is_refused(copied, change, message):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(copied)


def test_a_configuration_that_transformers_5_wrote_is_read_alike(copied):
    expected = read_checkpoint(copied).config
    config = json.loads((copied / "config.json").read_text())
    theta = config.pop("rope_theta")
    del config["rope_scaling"]
    config["rope_parameters"] = {"rope_theta": theta, "rope_type": "default"}
    (copied / "config.json").write_text(json.dumps(config))
    assert read_checkpoint(copied).config == expected


def test_a_missing_tokenizer_is_noticed(copied):
    (copied / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="holds no tokenizer.json"):
        read_checkpoint(copied)


def test_a_configuration_without_a_field_is_refused_by_its_name(copied):
    config = json.loads((copied / "config.json").read_text())
    del config["num_key_value_heads"]
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="config.json lacks num_key_value_heads"):
        read_checkpoint(copied)


def test_weights_of_an_unsupported_type_are_refused(tmp_path):
    header = json.dumps({"w": {"dtype": "I16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    with pytest.raises(CheckpointError, match="tensor w is I16; only BF16, F16, F32 are supported"):
        read_safetensors(tmp_path / "x.safetensors")


def test_bfloat16_is_widened_exactly():
    bits = np.array([0x3F80, 0xC0A0, 0x0001, 0x7F80], np.uint16)
    assert as_float32(bits).tolist() == [1.0, -5.0, 2.0**-133, float("inf")]


def test_noise_is_as_large_as_asked_and_the_same_each_time():
    from builder.repository import noisy

    checkpoint = read_checkpoint(MODEL)
    name = "model.layers.0.mlp.up_proj.weight"
    first, second = (noisy(checkpoint, 20).tensor(name) for _ in range(2))
    weight = checkpoint.tensor(name)
    assert np.array_equal(first, second)
    assert (first - weight).std() / weight.std() == pytest.approx(0.2, rel=0.02)


def test_a_task_without_options_has_the_defaults(tmp_path):
    path = tmp_path / "build.json"
    path.write_text('{"precision": "INT8"}')
    assert read_build_task(path) == BuildTask("INT8", None, {
        "maxBatchSize": 32, "instances": 1, "threads": 1, "streamInterval": 4,
        "extraComputePercent": 0, "executeDelayMilliseconds": 0, "weightNoisePercent": 0,
    })
