#!/usr/bin/env python3
"""Runs a public runner of compliance tests of Open Responses against the agent runtime's binary.

The runner is llm-comply, with the schema of Open Responses that it brings; version and hashes are those of
`compliance.txt`. The engine is a stand-in (`engine.py`). It writes a table, and fails where a test fails without a
reason that is known.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import engine
from run import HERE, install_python, installed, start_runtime

LOCK = HERE / "compliance.txt"
# Why a test fails, by its id.
KNOWN = {
    "image-input": "the agent reads text alone, and refuses images with 400",
    "error-handling": "`model` may be left out: a pod serves one agent",
}
# What a test that passes has accepted, by its id.
ACCEPTED = {"compact-response": "404 is accepted", "compact-missing-model": "404 is accepted"}


def table(version: str, found: dict) -> tuple[str, list[str]]:
    """The table in Markdown, and the tests that fail without a reason."""
    results, summary = found["results"], found["summary"]
    lines = [
        "# Open Responses",
        "",
        f"Written by `make test-compliance`: the tests of llm-comply {version}, a public runner, "
        "against the agent runtime's",
        "binary and a stand-in for vLLM's server. Answers are held against the schema of Open Responses that "
        "it brings.",
        "",
        f"{summary['passed']} of {summary['total'] - summary['skipped']} tests pass. The table has {summary['total']}: "
        f"{summary['skipped']} that the runner skips is not counted.",
        "",
        "Compaction is not implemented: `POST /v1/responses/compact` answers 404. Both tests of it accept that, so they "
        "pass.",
        "",
        "| test | result |",
        "|---|---|",
    ]
    unknown = []
    for result in results:
        told = {"passed": "passes", "skipped": "skipped by the runner"}.get(result["status"])
        if told == "passes" and result["id"] in ACCEPTED:
            told = f"passes: {ACCEPTED[result['id']]}"
        if told is None and result["id"] in KNOWN:
            told = f"fails: {KNOWN[result['id']]}"
        elif told is None:
            unknown.append(f"{result['id']}: {'; '.join(result.get('errors', []))}")
            told = "fails"
        lines.append(f"| {result['name']} | {told} |")
    return "\n".join(lines) + "\n", unknown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--write", type=pathlib.Path, required=True)
    options = parser.parse_args()
    program = installed(options.cache, LOCK, install_python(LOCK)) / "bin/llm-comply"
    version = re.search(r"^llm-comply==(\S+)", LOCK.read_text(), re.MULTILINE).group(1)
    with tempfile.TemporaryDirectory() as folder:
        process, origin = start_runtime(options.binary, engine.start(), pathlib.Path(folder))
        command = [program, "--base-url", f"{origin}/v1", "--api-key", "none", "--model", "support", "--json"]
        try:
            told = subprocess.run(command, stdout=subprocess.PIPE, timeout=240, check=False).stdout
        finally:
            process.terminate()
            process.wait(timeout=20)
    text, unknown = table(version, json.loads(told))
    options.write.write_text(text)
    print(text)
    if unknown:
        raise SystemExit("\n".join(unknown))


if __name__ == "__main__":
    main()
