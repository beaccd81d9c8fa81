#!/usr/bin/env python3
"""GPUs that are not there, for rehearsals: configurations of NVIDIA's stand-in for NVML, and how a pod gets one.

    gpus.py configure PROFILE FOLDER COUNT      FOLDER/all has so many GPUs of the profile, FOLDER/UUID each one of them
    gpus.py describe FOLDER LIBRARIES FILE      the CDI specification FILE of nvidia-ctk, with what a pod needs

A pod that is allocated a GPU sees the folder of that one, and the libraries of the stand-in. What is written into the
folder changes its GPU at once: `overrides.yaml` as NVIDIA's stand-in reads it, `token_seconds` as that for vLLM does.
"""

import json
import re
import sys
from pathlib import Path

# e2e/images/slipway-no-build-stand-in/engine/stand_in_engine.py knows this path too.
SEEN = "/opt/slipway/gpu"
SYSTEM_LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def cut(profile: str) -> tuple[str, list[str], str]:
    """Returns what stands before the devices of a profile, each device, and what follows."""
    before, devices = profile.split("\ndevices:\n")
    end = devices.index("\n\n#")
    return f"{before}\ndevices:\n", re.split(r"(?m)^(?=  - index:)", devices[:end])[1:], devices[end:]


def with_gpus(profile: str, indexes: range) -> str:
    """Returns a profile with some of its GPUs, numbered from 0."""
    before, devices, after = cut(profile)
    chosen = [re.sub(r"index: \d+", f"index: {at}", devices[index]) for at, index in enumerate(indexes)]
    return before + "".join(chosen) + after


def uuid_of(profile: str) -> str:
    return re.search(r'(?m)^    uuid: "([^"]+)"', profile).group(1)


def configure(profile: Path, folder: Path, count: int) -> None:
    text = profile.read_text()
    most = len(cut(text)[1])
    if not 1 <= count <= most:
        sys.exit(f"SLIPWAY_REHEARSED_GPUS is {count}: write 1 to {most}")
    of_each = [with_gpus(text, range(index, index + 1)) for index in range(count)]
    for name, content in [("all", with_gpus(text, range(count))), *[(uuid_of(one), one) for one in of_each]]:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.yaml").write_text(content)


def mount(source: Path, target: str) -> dict:
    return {"hostPath": str(source), "containerPath": target, "options": ["ro", "rbind", "nosuid", "nodev"]}


def describe(folder: Path, libraries: Path, file: Path) -> None:
    """Prints the specification. Its hooks go: they make links to files that a driver has."""
    specification = json.loads(file.read_text())
    by_index = [uuid_of(one) for one in cut((folder / "all" / "config.yaml").read_text())[1]]
    devices = []
    for device in specification["devices"]:
        name = device["name"]
        uuid = by_index[int(name)] if name.isdigit() else name
        devices.append({"name": name, "containerEdits": {"mounts": [mount(folder / uuid, SEEN)]}})
    specification["devices"] = devices
    seen = [mount(libraries / name, f"{SYSTEM_LIBRARIES}/{name}") for name in ("libnvidia-ml.so.1", "libcuda.so.1")]
    specification["containerEdits"] = {"env": [f"MOCK_NVML_CONFIG={SEEN}/config.yaml"], "mounts": seen}
    json.dump(specification, sys.stdout, indent=1)


def main() -> None:
    match sys.argv[1:]:
        case ["configure", profile, folder, count]:
            configure(Path(profile), Path(folder), int(count))
        case ["describe", folder, libraries, file]:
            describe(Path(folder), Path(libraries), Path(file))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
