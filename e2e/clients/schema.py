#!/usr/bin/env python3
"""Sends what the agent runtime's OpenAPI document allows and forbids, and holds the answers against it (schemathesis).

The engine is a stand-in (`engine.py`). Requests come from the document and a seed; `schema_hooks.py` mends what no schema
can say. Versions and hashes are those of `schemathesis.txt`. Writes nothing; fails with schemathesis' own report.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import engine
from run import HERE, install_python, installed, start_runtime

LOCK = HERE / "schemathesis.txt"
# 422 answers a key of idempotency that came with another request before, which no schema can say.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "422", "429", "5xx"]
"""
# A pod keeps its latest 256 responses: what goes on with one has a pod of its own.
PHASES = ["examples,coverage,fuzzing", "stateful"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--examples", type=int, default=100, help="requests for each operation and phase")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program = installed(options.cache, LOCK, install_python(LOCK)) / "bin/schemathesis"
    failed = [phases for phases in PHASES if not run(program, phases, options)]
    if failed:
        raise SystemExit(f"failed: {'; '.join(failed)}")


def run(program: pathlib.Path, phases: str, options: argparse.Namespace) -> bool:
    """Runs phases against a runtime of their own, and says whether nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        process, origin = start_runtime(options.binary, engine.start(), pathlib.Path(folder))
        config = pathlib.Path(folder) / "schemathesis.toml"
        config.write_text(CONFIG)
        command = [program, "--config-file", config, "run", f"{origin}/openapi.json", "--checks", "all", "--phases", phases,
                   "--max-examples", str(options.examples), "--seed", str(options.seed), "--request-timeout", "20",
                   "--generation-database", "none"]
        environment = os.environ | {"SCHEMATHESIS_HOOKS": "schema_hooks", "PYTHONPATH": str(HERE)}
        try:
            found = subprocess.run([str(part) for part in command], cwd=folder, env=environment, check=False)
        finally:
            process.terminate()
            process.wait(timeout=20)
    return found.returncode == 0


if __name__ == "__main__":
    main()
