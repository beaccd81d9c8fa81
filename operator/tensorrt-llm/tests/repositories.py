"""Makes templates of the placeholders of each release, and reads filled ones with Triton's own protobuf.

repositories.py make FOLDER    writes <release>/<model>/config.pbtxt, made of data/placeholders.json
repositories.py check FOLDER   reads every config.pbtxt below FOLDER as a ModelConfig
"""

import json
import pathlib
import sys

SCALARS = {
    "triton_max_batch_size": "max_batch_size: {}",
    "decoupled_mode": "model_transaction_policy {{ decoupled: {} }}",
    "max_queue_delay_microseconds": "max_queue_delay_microseconds: {}",
    "max_queue_size": "default_queue_policy {{ max_queue_size: {} }}",
}
QUEUE = ("max_queue_delay_microseconds", "max_queue_size")


def template(model, bare, quoted):
    lines = ["# made for tests: ${not_a_placeholder}", f'name: "{model}"']
    queue = [SCALARS[name].format("${" + name + "}") for name in QUEUE if name in bare]
    if queue:
        lines.append("dynamic_batching { " + " ".join(queue) + " }")
    for name in bare:
        value = "${" + name + "}"
        if name in QUEUE:
            continue
        if name in SCALARS:
            lines.append(SCALARS[name].format(value))
        elif name.endswith("_instance_count"):
            lines.append(f"instance_group [ {{ count: {value} kind: KIND_CPU }} ]")
        else:
            lines.append(f'input [ {{ name: "{name}" data_type: {value} dims: [ -1 ] optional: true }} ]')
    for name in quoted:
        value = "${" + name + "}"
        if name == "triton_backend":
            lines.append(f'backend: "{value}"')
        else:
            lines.append(f'parameters: {{ key: "{name}" value: {{ string_value: "{value}" }} }}')
    return "\n".join(lines) + "\n"


def make(folder):
    releases = json.loads((pathlib.Path(__file__).parent / "data" / "placeholders.json").read_text())
    for release, models in releases.items():
        for model, sets in models.items():
            path = folder / release / model / "config.pbtxt"
            path.parent.mkdir(parents=True)
            path.write_text(template(model, sets["bare"], sets["quoted"]))


def check(folder):
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    paths = sorted(folder.rglob("config.pbtxt"))
    for path in paths:
        config = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
        case = path.parts[-3]
        if config.max_batch_size != 64:
            raise SystemExit(f"{path}: max_batch_size is {config.max_batch_size}")
        if config.name == "tensorrt_llm":
            parameters = {key: value.string_value for key, value in config.parameters.items()}
            expected = '/models/an "odd\\engine"' if case.endswith("-all") else "/models/engine"
            # The key is the placeholder in templates made here, and gpt_model_path in upstream's.
            engine = parameters.get("engine_dir", parameters.get("gpt_model_path"))
            if (engine, config.backend, config.model_transaction_policy.decoupled) != (expected, "tensorrtllm", True):
                raise SystemExit(f"{path}: {engine}, {config.backend}")
    if not paths:
        raise SystemExit(f"there is no config.pbtxt below {folder}")
    print(f"{len(paths)} configurations read")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
