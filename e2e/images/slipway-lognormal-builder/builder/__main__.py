"""The builder container's one verb.

    python3 -m builder build       task/build.json -> output/model_repository/agent
"""

import argparse
import json
import platform
import shutil
import sys
import time
from pathlib import Path

from .options import OptionError, read_behaviour

MODEL_NAME = "agent"

_CONFIG = """\
name: "{name}"
backend: "python"
max_batch_size: 0
model_transaction_policy {{ decoupled: true }}
input [
  {{ name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "stop_words" data_type: TYPE_STRING dims: [ -1 ] optional: true }},
  {{ name: "stream" data_type: TYPE_BOOL dims: [ 1 ] optional: true }}
]
output [
  {{ name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "finish_reason" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "output_tokens" data_type: TYPE_INT32 dims: [ 1 ] }}
]
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
"""


def main() -> int:
    """Builds; errors in the task end it with a line that names them, and exit code 1."""
    parser = argparse.ArgumentParser(
        prog="builder", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("build",), nargs="?", default="build")
    parser.add_argument("--root", type=Path, default=Path("/slipway"), help="folder with task and output")
    arguments = parser.parse_args()
    start = time.monotonic()
    try:
        behaviour = read_behaviour(arguments.root / "task" / "build.json")
    except OptionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    output = arguments.root / "output"
    write_repository(output / "model_repository", behaviour)
    report = {
        "versions": {"python": platform.python_version()},
        "durationsMillis": {"build": round(1000 * (time.monotonic() - start))},
    }
    (output / "builder.json").write_text(json.dumps(report) + "\n")
    print(f"built an engine that behaves so: {json.dumps(behaviour)}")
    return 0


def write_repository(repository: Path, behaviour: dict[str, str]) -> None:
    """Writes the model; equal behaviours give equal bytes."""
    version = repository / MODEL_NAME / "1"
    version.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(__file__).parent / "model.py", version / "model.py")
    parameters = [f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
                  for key, value in behaviour.items()]
    config = _CONFIG.format(name=MODEL_NAME) + "".join(parameters)
    (repository / MODEL_NAME / "config.pbtxt").write_text(config)


if __name__ == "__main__":
    sys.exit(main())
