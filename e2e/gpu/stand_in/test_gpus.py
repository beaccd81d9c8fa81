#!/usr/bin/env python3
"""What a pod of a rehearsal sees of the GPUs that are not there. Needs no GPU, and nothing of NVIDIA's."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import gpus

# As NVIDIA/k8s-test-infra writes a profile, with fewer GPUs and figures.
PROFILE = """\
version: "1.0"
system:
  driver_version: "580.65.06"

devices:
  - index: 0
    uuid: "GPU-aaaa"
    pci:
      bus_id: "0000:07:00.0"
  - index: 1
    uuid: "GPU-bbbb"
    pci:
      bus_id: "0000:0F:00.0"

# What follows the devices stays.
nvlink:
  links_per_gpu: 0
"""
OF_BBBB = PROFILE.replace('  - index: 0\n    uuid: "GPU-aaaa"\n    pci:\n      bus_id: "0000:07:00.0"\n', "").replace(
    "index: 1", "index: 0"
)


class Gpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.profile = self.folder / "profile.yaml"
        self.profile.write_text(PROFILE)

    def test_each_gpu_has_a_folder_in_which_it_is_the_first_and_only_one(self):
        gpus.configure(self.profile, self.folder, 2)
        read = {name: (self.folder / name / "config.yaml").read_text() for name in ("all", "GPU-bbbb")}
        self.assertEqual(read, {"all": PROFILE, "GPU-bbbb": OF_BBBB})

    def test_a_number_of_gpus_that_the_profile_lacks_names_the_variable_and_the_most(self):
        for count in (0, 3):
            with self.assertRaises(SystemExit) as refused:
                gpus.configure(self.profile, self.folder, count)
            self.assertEqual(str(refused.exception), f"SLIPWAY_REHEARSED_GPUS is {count}: write 1 to 2")

    def test_a_pod_is_given_the_folder_of_its_gpu_by_index_or_uuid_and_no_hook_of_a_driver(self):
        gpus.configure(self.profile, self.folder, 2)
        written = {
            "cdiVersion": "0.5.0",
            "kind": "nvidia.com/gpu",
            "devices": [{"name": name, "containerEdits": {"deviceNodes": []}} for name in ("1", "GPU-aaaa")],
            "containerEdits": {"hooks": [{"hookName": "createContainer"}]},
        }
        specification = self.folder / "nvidia.json"
        specification.write_text(json.dumps(written))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            gpus.describe(self.folder, Path("/stand-in"), specification)
        described = json.loads(printed.getvalue())
        seen = {
            device["name"]: [(mount["hostPath"], mount["containerPath"]) for mount in device["containerEdits"]["mounts"]]
            for device in described["devices"]
        }
        self.assertEqual(
            seen,
            {
                "1": [(str(self.folder / "GPU-bbbb"), gpus.SEEN)],
                "GPU-aaaa": [(str(self.folder / "GPU-aaaa"), gpus.SEEN)],
            },
        )
        self.assertEqual(sorted(described["containerEdits"]), ["env", "mounts"])
        self.assertEqual(described["containerEdits"]["env"], [f"MOCK_NVML_CONFIG={gpus.SEEN}/config.yaml"])


if __name__ == "__main__":
    unittest.main()
