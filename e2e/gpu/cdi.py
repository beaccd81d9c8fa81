#!/usr/bin/env python3
"""Adds the Python environment of this node to a CDI specification that nvidia-ctk generated; prints the result.

    cdi.py --environment FOLDER generated.json

A pod that is allocated a GPU gets, read-only and at their own paths, the folders that hold this interpreter and its
packages: the system's /usr among them, with the C library and the compiler that torch and Triton call. FOLDER, with
vLLM, appears as /opt/slipway/environment. The image below must therefore be all but empty.

The hooks go: they make links and caches for libraries in an image, and find here the node's own, which nobody may
write to.
"""

import argparse
import json
import sys
from pathlib import Path

SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache")
ENVIRONMENT = "/opt/slipway/environment"


def folders() -> list[str]:
    """Returns what holds the interpreter and its packages, without folders of other ones."""
    interpreter = [sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)]
    # Where /usr is not merged, libraries of the system lie beside it.
    unmerged = [name for name in ("/bin", "/lib", "/lib64", "/sbin") if not Path(name).is_symlink()]
    found = [*SYSTEM, *unmerged, *interpreter]
    return [
        each
        for at, each in enumerate(found)
        if Path(each).exists() and not any(Path(each).is_relative_to(other) for other in found[:at])
    ]


def mount(source: str, target: str) -> dict:
    return {"hostPath": source, "containerPath": target, "options": ["ro", "rbind", "nosuid", "nodev"]}


def without_hooks(edits: dict) -> dict:
    return {name: value for name, value in edits.items() if name != "hooks"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", required=True)
    parser.add_argument("specification", type=Path)
    arguments = parser.parse_args()
    specification = json.loads(arguments.specification.read_text())
    for device in specification["devices"]:
        device["containerEdits"] = without_hooks(device["containerEdits"])
    edits = without_hooks(specification.get("containerEdits", {}))
    own = [mount(folder, folder) for folder in folders()] + [mount(arguments.environment, ENVIRONMENT)]
    # What lies below a folder that is mounted whole is there already.
    below = tuple(f"{each['containerPath']}/" for each in own)
    kept = [each for each in edits.get("mounts", []) if not each["containerPath"].startswith(below)]
    edits["mounts"] = own + kept
    specification["containerEdits"] = edits
    json.dump(specification, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
