#!/usr/bin/env python3
"""What the checks of GPUs say of faults that no GPU here has, with NVIDIA's own stand-in for its library.

NVIDIA/k8s-test-infra has a libnvidia-ml.so that answers as a GPU of a given profile does, with faults on demand. This
builds it from a checkout, gives one H100 one fault after another, and compares what `slipway-preflight` refuses. Then
`slipway-preflight watch` counts clocks that heat lowers, and an XID error. There is no CUDA, so nothing works on a GPU:
one without a fault is refused for want of libcuda.so.1.

    nvidia_mock.py --checkout FOLDER --preflight FILE

FOLDER is a checkout of https://github.com/NVIDIA/k8s-test-infra; Go and a C compiler build the library. FILE is the
program, linked dynamically, as the image slipway-preflight has it.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from stand_in.gpus import with_gpus

PROFILE = "deployments/nvml-mock/helm/nvml-mock/profiles/h100.yaml"
LIBRARY = "pkg/gpu/mocknvml"
# crds/vocabulary/src/telemetry.rs.
TOLD = "http://127.0.0.1:9465/slipway/v1/gpus"
NO_CUDA = {"kind": "NoLibrary", "library": "libcuda.so.1"}
ERRORS = {"ecc": {"errors": {"volatile": {"double_bit": {"total": 3, "device_memory": 3}}}}}
OFF_ITS_BUS = "device fell off the bus or has otherwise become inacessible"

# What is asked, what the GPU has, and what is refused: the members that are named.
CASES = [
    ("a GPU without a fault", {}, {}, [NO_CUDA]),
    ("uncorrected errors", {}, ERRORS, [{"kind": "UncorrectedErrors", "gpu": 0, "errors": 3}]),
    ("rows to be remapped", {}, {"remapped_rows": {"pending": True}}, [{"kind": "RepairPending", "gpu": 0}]),
    ("rows that cannot be", {}, {"remapped_rows": {"failure_occurred": True}}, [{"kind": "RepairFailed", "gpu": 0}]),
    ("MIG", {}, {"mig": {"mode_current": "enabled"}}, [{"kind": "Mig", "gpu": 0}]),
    ("held memory", {}, {"memory": {"used_bytes": 60 << 30, "free_bytes": 20 << 30}},
     [{"kind": "Occupied", "gpu": 0, "freeMib": 20_480, "memoryMib": 81_920, "neededMib": 73_728}]),
    ("off its bus", {}, {"failure": {"mode": "fallen_off_bus"}},
     [{"kind": "Unusable", "gpu": 0, "step": "describe itself", "problem": OFF_ITS_BUS}]),
    ("one of two GPUs", {"gpus": 2}, {}, [{"kind": "TooFew", "seen": 1, "asked": 2}]),
    ("an old driver", {"minDriver": "580.65.06"}, {}, [{"kind": "OldDriver", "driver": "550.163.01"}]),
    ("another product", {"product": "NVIDIA-L4"}, {}, [{"kind": "OtherProduct", "product": "NVIDIA-H100-80GB-HBM3"}]),
]
HOT = {"clocks_throttle_reasons": {"gpu_idle": False, "hw_thermal_slowdown": True}, "clocks": {"sm_current": 660}}
BROKEN = {"failure": {"mode": "ecc_uncorrectable", "xid": {"code": 79}}}


class Mock:
    """The library with one GPU, whose faults can be set."""

    def __init__(self, checkout: Path, folder: Path):
        subprocess.run(["make", "--quiet", "NO_PADDING=1"], cwd=checkout / LIBRARY, check=True, stderr=subprocess.DEVNULL)
        self.folder = folder
        (folder / "config.yaml").write_text(with_gpus((checkout / PROFILE).read_text(), range(1)))
        # Its loader looks in the folder of the configuration for what overrides it.
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": str(checkout / LIBRARY), "MOCK_NVML_CONFIG": str(folder / "config.yaml"),
        }

    def set(self, fault: dict) -> None:
        """Gives the GPU a fault, and takes the one before."""
        written = self.folder / "written.yaml"
        # YAML takes JSON.
        written.write_text(json.dumps({"all": fault}))
        written.rename(self.folder / "overrides.yaml")


def refusals(program: Path, mock: Mock, task: dict) -> list:
    ended = subprocess.run([program, json.dumps(task)], env=mock.environment, capture_output=True, text=True, timeout=60)
    sys.stdout.write(ended.stderr)
    return json.loads(ended.stdout)["refusals"]


def has(found: list, expected: list) -> bool:
    """Whether the same is refused, with the members that are expected."""
    pairs = zip(found, expected)
    return len(found) == len(expected) and all(wanted.items() <= each.items() for each, wanted in pairs)


def check(program: Path, mock: Mock) -> list:
    """Returns the names of the cases that are refused otherwise."""
    failed = []
    for name, task, fault, expected in CASES:
        mock.set(fault)
        print(f"# {name}")
        found = refusals(program, mock, task)
        if not has(found, expected):
            print(f"expected {expected}, found {found}")
            failed.append(name)
    return failed


def windows() -> list:
    with urllib.request.urlopen(TOLD, timeout=5) as answer:
        return json.load(answer)["windows"]


def until(condition, seconds: int) -> bool:
    """Whether something comes true within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if any(condition(gpu) for window in windows() for gpu in window["gpus"]):
                return True
        except OSError:
            pass
        time.sleep(0.5)
    return False


def watch(program: Path, mock: Mock) -> list:
    """Returns what the program that watches did not see."""
    mock.set(HOT)
    watching = subprocess.Popen([program, "watch"], env=mock.environment)
    try:
        missed = []
        if not until(lambda gpu: gpu.get("slowed") == [["HardwareHeat", gpu["samples"]]] and gpu["clockMhz"] == 660, 30):
            missed.append("clocks that heat lowers")
        mock.set(BROKEN)
        if not until(lambda gpu: 79 in gpu.get("xids", []), 30):
            missed.append("an XID error")
        print(json.dumps(windows()))
        return missed
    finally:
        watching.terminate()
        watching.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--preflight", type=Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mock = Mock(arguments.checkout.resolve(), Path(folder))
        program = arguments.preflight.resolve()
        failed = check(program, mock) + watch(program, mock)
    if failed:
        sys.exit(f"nvidia_mock.py: not as expected: {', '.join(failed)}")
    print(f"{len(CASES)} cases and the watch were as expected")


if __name__ == "__main__":
    main()
