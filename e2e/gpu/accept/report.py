#!/usr/bin/env python3
"""Writes the report of an acceptance run in Markdown, from what its steps left in their folder.

    report.py FOLDER --differences SCRIPT [--commit HASH] [--stand-ins]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

AGENTS = {"precisions": "precisions", "lab_react": "react-lab", "lab_int8": "int8-lab", "tp2": "tp2"}
STEPS = ("tools", "gpus", "workload", "probe", "precisions", "lab_react", "lab_int8", "tp2", "rollout")


def text(path: Path) -> str:
    return path.read_text(errors="replace").strip() if path.exists() else ""


def document(path: Path) -> dict:
    try:
        return json.loads(text(path) or "{}")
    except json.JSONDecodeError:
        return {}


def table(head: list[str], rows: list[list[object]]) -> list[str]:
    if not rows:
        return ["Nothing was seen.", ""]
    cell = lambda value: str("" if value is None else value).replace("|", "\\|").replace("\n", " ")  # noqa: E731
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows] + [""]


def of_steps(folder: Path) -> list[str]:
    rows = []
    for name in STEPS:
        step = document(folder / "steps" / f"{name}.json")
        rows.append([name, step.get("status", "not run"), step.get("seconds"), step.get("ended"), step.get("why")])
    return ["## Steps", *table(["step", "outcome", "seconds", "ended", "why"], rows)]


def of_versions(seen: Path, commit: str) -> list[str]:
    kubernetes = document(seen / "kubernetes.json").get("serverVersion", {}).get("gitVersion")
    probe = text(seen / "probe.txt")
    versions = probe.partition("== versions")[2].partition("== paths")[0].replace("== gpus", "GPUs:").strip()
    rows = [
        ["this checkout", commit],
        ["kubectl-slipway", text(seen / "plugin.txt")],
        ["operator", text(seen / "operator.txt")],
        ["Kubernetes", kubernetes],
        ["GPUs of nodes", text(seen / "gpus.txt")],
        ["image", text(seen / "image.txt")],
        ["image's digest", text(seen / "image-id.txt")],
    ]
    return ["## Versions", *table(["what", "seen"], rows), "In the image:", "```", versions, "```", ""]


def of_differences(seen: Path, script: Path) -> list[str]:
    """Everything that an image or a server does otherwise than the stand-ins."""
    found = [("the image's tools", line) for line in text(seen / "tools.differences").splitlines()]
    for name in AGENTS:
        for what, file in (("files", "files.txt"), ("metrics", "metrics.txt")):
            path = seen / name / file
            if path.exists():
                run = subprocess.run([sys.executable, script, what, path], capture_output=True, text=True, check=False)
                found += [(f"{name}, {what}", line) for line in (run.stdout + run.stderr).splitlines()]
    return ["## Differences from the stand-ins", *table(["where", "difference"], [list(row) for row in found])]


def of_engine(engine: dict) -> list[object]:
    status, spec = engine.get("status", {}), engine.get("spec", {})
    attempts = status.get("attempts", [])
    failures = "; ".join(f"{a['failure']['class']}: {a['failure']['message']}" for a in attempts if a.get("failure"))
    artifact = status.get("artifact") or {}
    parts = spec.get("tensorRTLLM") or {}
    split = f"{parts.get('tensorParallel', 1)} x {parts.get('pipelineParallel', 1)}"
    size = f"{artifact['sizeBytes'] / 2**30:.2f}" if artifact.get("sizeBytes") else None
    return [engine["metadata"]["name"], parts.get("precision"), split, size, len(attempts), failures]


def of_row(row: dict) -> list[object]:
    told = "; ".join(
        f"{each['metric']} {each['percentile']} {each['microseconds'] / 1000:.1f} ms" for each in row.get("latencies", [])
    )
    rate = f"{row.get('perKilosecond', 0) / 1000:.2f}"
    counts = [row.get("engine"), row.get("level"), row.get("purpose"), row.get("count"), row.get("errors"), rate]
    return [*counts, told, f"{row.get('verdict', '')}: {row.get('reason', '')}"]


def of_agent(name: str, folder: Path) -> list[str]:
    agent = document(folder / "agent.json")
    if not agent:
        return []
    status = agent.get("status", {})
    chosen = (status.get("selected") or {}).get("displayName", "nothing")
    lines = [f"### {name}", f"Stage {status.get('stage', 'unknown')}; {chosen} was chosen.", ""]
    conditions = [[c["type"], c["status"], c["reason"], c["message"]] for c in status.get("conditions", [])]
    lines += table(["condition", "status", "reason", "message"], conditions)
    own = {engine["name"] for engine in status.get("engines", []) if engine.get("name")}
    engines = [e for e in document(folder / "engines.json").get("items", []) if e["metadata"]["name"] in own]
    lines += table(["engine", "precision", "GPUs", "GiB", "attempts", "failures"], [of_engine(e) for e in engines])
    scores = [
        [e.get("displayName"), q.get("samples"), q.get("scorePartsPerMillion", 0) / 10_000, q.get("accepted")]
        for e in status.get("engines", [])
        if (q := e.get("quality"))
    ]
    lines += table(["engine", "questions", "exact, percent", "accepted"], scores) if scores else []
    profiles = document(folder / "profiles.json").get("items", [])
    mine = [p for p in profiles if any(o.get("name") == AGENTS[name] for o in p["metadata"].get("ownerReferences", []))]
    rows = [of_row(row) for profile in mine for row in profile.get("status", {}).get("measurements", [])]
    lines += table(["engine", "in flight", "purpose", "measured", "errors", "a second", "latencies", "verdict"], rows) if rows else []
    answer = text(folder / "answer.txt")
    return lines + (["Asked and answered:", "```", answer, "```", ""] if answer else [])


def of_rollout(seen: Path) -> list[str]:
    counts = json.loads(text(seen / "users.json") or "[]")
    if not counts:
        return []
    rows = [[each["revision"], each["outcome"], each["count"]] for each in counts]
    return ["## Rollout", text(seen / "rollout.txt"), "", *table(["revision", "requests", "count"], rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--differences", type=Path, required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--stand-ins", action="store_true")
    arguments = parser.parse_args()
    seen = arguments.folder / "seen"
    lines = ["# Acceptance of Slipway", ""]
    if arguments.stand_ins:
        lines += ["**With stand-ins: neither a GPU nor TensorRT-LLM took part. This shows that the script works.**", ""]
    lines += of_steps(arguments.folder) + of_versions(seen, arguments.commit)
    lines += of_differences(seen, arguments.differences)
    lines += ["## Agents", ""]
    for name in AGENTS:
        lines += of_agent(name, seen / name)
    lines += of_rollout(seen)
    lines += ["The campaigns' own reports are `seen/*/report.html`, the servers' logs `seen/*/server.log`."]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
