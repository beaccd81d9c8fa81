"""Makes templates of the placeholders of each release, and reads filled ones with Triton's own protobuf.

repositories.py make FOLDER    writes <release>/<model>/config.pbtxt, made of data/placeholders.json
repositories.py check FOLDER   reads every config.pbtxt below FOLDER as a ModelConfig
repositories.py make-llmapi FOLDER      writes a model with the tensors of TensorRT-LLM's llmapi model
repositories.py check-no-build FOLDER   reads the repositories of engines without a build, and what the engines are told
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


# Name, type, and whether a request may lack it.
LLMAPI_INPUTS = [
    ("text_input", "TYPE_STRING", False),
    ("streaming", "TYPE_BOOL", True),
    ("sampling_param_max_tokens", "TYPE_INT32", True),
    ("sampling_param_top_k", "TYPE_INT32", True),
    ("sampling_param_exclude_input_from_output", "TYPE_BOOL", True),
    ("return_finish_reason", "TYPE_BOOL", True),
]
LLMAPI_OUTPUTS = ["text_output", "finish_reason"]


def make_llmapi(folder):
    def tensor(name, kind, rest=""):
        return f'  {{\n    name: "{name}"\n    data_type: {kind}\n    dims: [ -1 ]{rest}\n  }}'

    between = ",\n"
    inputs = [tensor(name, kind, "\n    optional: true" * is_optional) for name, kind, is_optional in LLMAPI_INPUTS]
    outputs = [tensor(name, "TYPE_STRING") for name in LLMAPI_OUTPUTS]
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        '# made for tests\nname: "tensorrt_llm"\nbackend: "python"\n\n## belongs to model.yaml\n# max_batch_size: 64\n\n'
        "instance_group [\n  {\n    count: 1\n    kind : KIND_CPU\n  }\n]\n\n"
        f"input [\n{between.join(inputs)}\n]\n# what RequestOutput has\noutput [\n{between.join(outputs)}\n]\n"
    )
    for name in ("model.py", "helpers.py", "model.yaml"):
        (folder / "1" / name).write_text("")


def check_no_build(folder):
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    def read(backend):
        text = (folder / backend / "model_repository" / "agent" / "config.pbtxt").read_text()
        return text_format.Parse(text, model_config_pb2.ModelConfig())

    def told(backend, file):
        return json.loads((folder / backend / "model_repository" / "agent" / "1" / file).read_text())

    vllm, llmapi = read("vllm"), read("llmapi")
    group = vllm.instance_group[0]
    found = (vllm.name, vllm.backend, vllm.max_batch_size, vllm.model_transaction_policy.decoupled, group.count, group.kind)
    expected = ("agent", "vllm", 0, True, 1, model_config_pb2.ModelInstanceGroup.KIND_MODEL)
    if found != expected:
        raise SystemExit(f"vllm: {found} is not {expected}")
    # What the model completes itself must not stand in its configuration.
    found = (llmapi.name, llmapi.backend, llmapi.max_batch_size, llmapi.HasField("model_transaction_policy"))
    if found != ("agent", "python", 0, False):
        raise SystemExit(f"llmapi: {found}")
    inputs = [(each.name, model_config_pb2.DataType.Name(each.data_type), each.optional) for each in llmapi.input]
    if inputs != LLMAPI_INPUTS or [each.name for each in llmapi.output] != LLMAPI_OUTPUTS:
        raise SystemExit(f"llmapi: {inputs}")
    if told("vllm", "model.json")["max_model_len"] != 8192 or told("llmapi", "model.yaml")["max_seq_len"] != 8192:
        raise SystemExit("the engines are told something else")
    print("2 repositories without a build read")


VERBS = {"make": make, "check": check, "make-llmapi": make_llmapi, "check-no-build": check_no_build}

if __name__ == "__main__":
    VERBS[sys.argv[1]](pathlib.Path(sys.argv[2]))
