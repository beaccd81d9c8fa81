"""The builder container's two verbs.

    python3 -m builder build       checkpoint + task/build.json -> output/model_repository/agent
    python3 -m builder evaluate    the built engine + task/quality.jsonl -> output/quality/outputs.jsonl
"""

import argparse
import json
import platform
import sys
import time
from importlib import metadata
from pathlib import Path

from .checkpoint import CheckpointError
from .evaluate import QualitySetError, evaluate
from .generation.engine import is_engine
from .options import OptionError, read_build_task
from .repository import MODEL_NAME, build_repository, writer_of


def main() -> int:
    """Runs one verb; errors in the input end it with a line that names them, and exit code 1."""
    parser = argparse.ArgumentParser(
        prog="builder", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("build", "evaluate"), nargs="?", default="build")
    parser.add_argument("--root", type=Path, default=Path("/slipway"), help="folder with checkpoint, task and output")
    parser.add_argument("--repository", type=Path, help="what to evaluate; default: output/model_repository")
    parser.add_argument("--threads", type=int, default=1, help="threads of the evaluation")
    arguments = parser.parse_args()
    try:
        if arguments.verb == "build":
            _build(arguments.root)
        else:
            _evaluate(arguments.root, arguments.repository, arguments.threads)
    except (CheckpointError, OptionError, QualitySetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _build(root: Path) -> None:
    """Builds, and leaves versions and duration in builder.json for the report on the engine."""
    start = time.monotonic()
    task = read_build_task(root / "task" / "build.json")
    target = build_repository(task, root / "checkpoint", root / "output")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    seconds = time.monotonic() - start
    report = {
        "versions": {
            "python": platform.python_version(),
            **{package: metadata.version(package) for package in writer_of(task.runtime).PACKAGES},
        },
        "durationsMillis": {"build": round(1000 * seconds)},
    }
    (root / "output" / "builder.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"built {task.precision} engine in {seconds:.1f} s: {size:,} bytes in {target}")


def _evaluate(root: Path, repository: Path | None, n_threads: int) -> None:
    start = time.monotonic()
    folder = (repository or root / "output" / "model_repository") / MODEL_NAME / "1"
    if not is_engine(folder):
        raise QualitySetError(f"there is no engine to evaluate in {folder}")
    outputs = root / "output" / "quality" / "outputs.jsonl"
    n_outputs = evaluate(folder, root / "task" / "quality.jsonl", outputs, n_threads)
    print(f"wrote {n_outputs} outputs in {time.monotonic() - start:.1f} s: {outputs}")


if __name__ == "__main__":
    sys.exit(main())
