#!/usr/bin/env python3
"""Runs stock clients against the agent runtime's binary, and writes a table of what passes.

Their versions and hashes are those of `python.txt`, `llama-index.txt` and `node/package-lock.json`. They are installed
once, into a folder of the cache, and again when one of these files changes. The engine is a stand-in (`engine.py`).
"""

import argparse
import hashlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import engine

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = HERE.parent.parent / "agent-runtime/tests/runtime/templates/qwen3.jinja"
# LlamaIndex wants an older openai-python than the others.
PYTHONS = {
    "python.txt": [
        "openai-python",
        "openai-python, responses",
        "LangChain",
        "OpenAI Agents SDK",
        "OpenAI Agents SDK, responses",
        "pydantic-ai",
    ],
    "llama-index.txt": ["LlamaIndex"],
}
PACKAGES = {
    "openai-python": "openai",
    "openai-python, responses": "openai",
    "LangChain": "langchain-openai",
    "OpenAI Agents SDK": "openai-agents",
    "OpenAI Agents SDK, responses": "openai-agents",
    "pydantic-ai": "pydantic-ai-slim",
    "LlamaIndex": "llama-index-llms-openai-like",
    "openai-node": "openai",
    "Vercel AI SDK": "ai",
    "@ag-ui/client": "@ag-ui/client",
}
LEAST_PERCENT = 90


def installed(cache: pathlib.Path, lock: pathlib.Path, install) -> pathlib.Path:
    """The folder that a lock file was installed into. A half installed one is made again."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    folder = cache / f"{lock.stem}-{digest}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install(folder)
        (folder / "complete").touch()
    return folder


def install_python(lock: pathlib.Path):
    def install(folder: pathlib.Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
        subprocess.run([*pip, "--requirement", lock], check=True)

    return install


def install_node(folder: pathlib.Path) -> None:
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(HERE / "node" / name, folder)
    subprocess.run(["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)


def start_runtime(
    binary: pathlib.Path, endpoint: str, folder: pathlib.Path, more: dict | None = None
) -> tuple[subprocess.Popen, str]:
    """Starts the binary with an agent that has a calculator, and waits until it serves."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    shutil.copy(TEMPLATE, checkpoint / "chat_template.jinja")
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    config = {
        "agentName": "support",
        "revision": "support-1",
        "triton": {"endpoint": endpoint, "dialect": "OpenAi"},
        "chatTemplate": {"folder": str(checkpoint)},
        "tools": [{"name": "calc", "description": "Evaluates an expression.", "kind": "calculator"}],
        "warmUp": {"longestPromptCharacters": 16},
        **(more or {}),
    }
    (folder / "config.json").write_text(json.dumps(config))
    ports = [free_port(), free_port()]
    api, admin = [f"127.0.0.1:{port}" for port in ports]
    arguments = ["--config", folder / "config.json", "--api-address", api, "--admin-address", admin]
    log = (folder / "log").open("w")
    process = subprocess.Popen([binary, *arguments], stdout=log, stderr=subprocess.STDOUT)
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://{admin}/readyz"):
                return process, f"http://{api}"
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
            time.sleep(0.05)
    process.kill()
    raise SystemExit(f"the runtime did not become ready:\n{(folder / 'log').read_text()}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def cells(command: list, log) -> list[dict]:
    """The cells that a program prints, a line each."""
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, timeout=240, check=False)
    return [json.loads(line) for line in found.stdout.decode().splitlines() if line.startswith("{")]


def version(client: str) -> str:
    package = PACKAGES[client]
    for lock in PYTHONS:
        found = re.search(rf"^{re.escape(package)}==(\S+)", (HERE / lock).read_text(), re.MULTILINE)
        if found and client in PYTHONS[lock]:
            return f"{package} {found.group(1)}"
    packages = json.loads((HERE / "node/package-lock.json").read_text())["packages"]
    return f"{package} {packages[f'node_modules/{package}']['version']}"


def table(found: list[dict]) -> tuple[str, int, int]:
    """The table in Markdown, how many cells pass, and how many there are."""
    clients = list(dict.fromkeys(cell["client"] for cell in found))
    columns = list(dict.fromkeys(cell["cell"] for cell in found))
    reasons = {(cell["client"], cell["cell"]): cell["reason"] for cell in found}
    passed = sum(reason == "" for reason in reasons.values())
    lines = [
        "# Stock clients",
        "",
        "Written by `make test-clients`: unchanged clients of the OpenAI API and of AG-UI, as their registries have them,",
        "against the agent runtime's binary and a stand-in for vLLM's server. The agent has Qwen3's chat template and a",
        "calculator. No model is involved: what the engine says is scripted (`e2e/clients/engine.py`).",
        "",
        f"{passed} of {len(reasons)} cells pass.",
        "",
        "| client | " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    notes = []
    for client in clients:
        row = []
        for column in columns:
            reason = reasons.get((client, column), "did not run")
            if reason:
                notes.append(f"{len(notes) + 1}. {client}, {column.replace('_', ' ')}: {' '.join(reason.split())[:300]}")
            row.append(f"no ({len(notes)})" if reason else "yes")
        api = ", `/v1/responses`" if client.endswith(", responses") else ""
        lines.append(f"| {version(client)}{api} | " + " | ".join(row) + " |")
    return "\n".join([*lines, "", *notes]).rstrip() + "\n", passed, len(reasons)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--write", type=pathlib.Path, required=True)
    options = parser.parse_args()
    python = {lock: installed(options.cache, HERE / lock, install_python(HERE / lock)) for lock in PYTHONS}
    node = installed(options.cache, HERE / "node/package-lock.json", install_node)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        endpoint = engine.start()
        process, origin = start_runtime(options.binary, endpoint, folder)
        # Modules are looked for beside the program.
        shutil.copy(HERE / "node/clients.mjs", node)
        commands = [
            [python[lock] / "bin/python", HERE / "clients.py", origin, endpoint, *clients]
            for lock, clients in PYTHONS.items()
        ]
        commands.append(["node", node / "clients.mjs", origin, endpoint])
        found = []
        try:
            with (folder / "clients.log").open("w") as log:
                # One after the other: each counts the generations that its clients cancel.
                for command in commands:
                    found += cells(command, log)
        finally:
            process.terminate()
            process.wait(timeout=20)
        text, passed, total = table(found)
        options.write.write_text(text)
        print((folder / "clients.log").read_text()[-20_000:])
    print(text)
    missing = set(PACKAGES) - {cell["client"] for cell in found}
    if missing or total < 11 * len(PACKAGES) or passed * 100 < LEAST_PERCENT * total:
        raise SystemExit(f"{passed} of {total} cells pass; {LEAST_PERCENT} % must. Missing: {sorted(missing)}")


if __name__ == "__main__":
    main()
