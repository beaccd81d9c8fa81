#!/usr/bin/env python3
"""Prints how many lines of Rust are compiled into each program: `compiled-lines.py [WORKSPACE]`.

A line a program: own lines, dependency lines, crates. The crates are those of `cargo tree --edges normal` for the
configured target, procedural macros included. Lines are those of the `.rs` files beside and below the root of a
crate, tests and comments included. C sources (SQLite, AWS-LC) do not count.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAMS = ["slipway-operator", "slipway-worker", "slipway-agent-runtime", "kubectl-slipway", "slipway-analysis"]


def cargo(workspace, *arguments):
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=workspace, check=True, stdout=subprocess.PIPE, text=True).stdout


def roots(package, program):
    """The source files at which a package's crates begin: its library, and the program itself."""
    for target in package["targets"]:
        is_library = bool({"lib", "proc-macro", "rlib", "cdylib", "dylib"} & set(target["kind"]))
        if is_library or (target["kind"] == ["bin"] and target["name"] == program):
            yield Path(target["src_path"])


def lines(package, program):
    files = set()
    for root in roots(package, program):
        below = root.parent
        others = below / "bin"
        found = [root] if below == Path(package["manifest_path"]).parent else below.rglob("*.rs")
        files.update(path for path in found if others not in path.parents or others in root.parents)
    return sum(path.read_bytes().count(b"\n") for path in files)


def main():
    workspace = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    metadata = json.loads(cargo(workspace, "metadata", "--format-version", "1"))
    packages = {(package["name"], package["version"]): package for package in metadata["packages"]}
    for program in PROGRAMS:
        owner = next(
            package["name"]
            for package in metadata["packages"]
            if any(target["kind"] == ["bin"] and target["name"] == program for target in package["targets"])
        )
        tree = cargo(workspace, "tree", "--package", owner, "--edges", "normal", "--prefix", "none", "--format", "{p}")
        compiled = {tuple(line.replace(" v", " ", 1).split()[:2]) for line in tree.splitlines() if line}
        counts = {True: 0, False: 0}
        for key in compiled:
            package = packages[key]
            counts[package["source"] is None] += lines(package, program if package["name"] == owner else None)
        print(f"{program}: {counts[True]} own lines, {counts[False]} dependency lines, {len(compiled)} crates")


if __name__ == "__main__":
    main()
