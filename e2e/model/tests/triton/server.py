"""Starts the tritonserver that PyPI's nvidia-pytriton carries, on loopback ports of its own."""

import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from pathlib import Path

_START_SECONDS = 60
_PACKAGES = ("numpy", "numpy.libs", "onnxruntime", "flatbuffers", "google", "packaging", "tokenizers")


class TritonServer:
    """One server with the model `agent` of a repository; use as a context manager."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._folder = folder
        self._repository = shutil.copytree(repository, folder / "repository")
        self._link_packages()
        self.http, self.grpc, self.metrics = (f"127.0.0.1:{port}" for port in _free_ports(3))
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "TritonServer":
        home = Path(sysconfig.get_path("purelib"))
        triton = home / "pytriton" / "tritonserver"
        # The wheel has one stub per Python version; the backend takes the one in its own folder.
        stub = triton / "python_backend_stubs" / "3.11" / "triton_python_backend_stub"
        backends = shutil.copytree(triton / "backends", self._folder / "backends")
        shutil.copy(stub, backends / "python")
        for executable in (triton / "bin" / "tritonserver", backends / "python" / stub.name):
            executable.chmod(0o755)
        command = [
            str(triton / "bin" / "tritonserver"), "--model-repository", str(self._repository),
            "--backend-directory", str(backends), "--log-verbose", "1",
            "--model-control-mode", "explicit", "--load-model", "agent",
        ]
        for name, address in (("http", self.http), ("grpc", self.grpc), ("metrics", self.metrics)):
            host, port = address.split(":")
            command += [f"--{name}-address", host, f"--{name}-port", port]
        environment = os.environ | {"LD_LIBRARY_PATH": str(home / "nvidia_pytriton.libs"), "OMP_NUM_THREADS": "1"}
        with (self._folder / "triton.log").open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._wait()
        return self

    def __exit__(self, *_) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def pin(self, core: int) -> None:
        """Pins the server and its instances, all threads of them, to one core."""
        for process in [str(self._process.pid), *self._children()]:
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})

    def _children(self) -> list[str]:
        return [
            pid
            for thread in Path(f"/proc/{self._process.pid}/task").iterdir()
            for pid in (thread / "children").read_text().split()
        ]

    def stub_processes(self) -> int:
        """Counts the model's instances: the python backend runs each in a process of its own."""
        return sum("python_backend_stub" in Path(f"/proc/{pid}/cmdline").read_text() for pid in self._children())

    def wait_for_stub_processes(self, count: int) -> None:
        """Waits until the model has so many instances; those of a configuration before may still be ending."""
        deadline = time.monotonic() + _START_SECONDS
        while self.stub_processes() != count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.stub_processes()} instances instead of {count}")
            time.sleep(0.1)

    def log(self) -> str:
        """Returns what the server has logged so far."""
        return (self._folder / "triton.log").read_text()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"http://{self.http}/v2/models/agent/ready", timeout=2).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self._process.kill()
        raise RuntimeError("Triton did not get ready:\n" + self.log()[-4000:])

    def _link_packages(self) -> None:
        """Puts packages beside model.py: the stub's Python looks there and in the system's folders only."""
        for name in _PACKAGES:
            package = Path(sysconfig.get_path("purelib")) / name
            if package.exists():
                (self._repository / "agent" / "1" / name).symlink_to(package)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
