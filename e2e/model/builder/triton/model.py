"""Triton's entry (python backend): decoupled responses, one batch shared by all requests of an instance.

`execute` only checks and enqueues; a thread of its own generates, so requests join the running batch between steps.
"""

import json
import queue
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).parent))

from generation.batcher import Batcher, Progress  # noqa: E402
from generation.engine import load_engine  # noqa: E402
from generation.request import GenerationRequest, InvalidRequest, checked_request  # noqa: E402

CANCELLATION_POLL_SECONDS = 0.02
"""How often requests are asked whether they were cancelled; each question is a message to the server's process."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of config.pbtxt; all are integers of at least `minimum`."""

    max_batch: int = field(default=32, metadata={"minimum": 1})
    max_waiting: int = field(default=256, metadata={"minimum": 1})
    threads: int = field(default=1, metadata={"minimum": 1})
    stream_interval: int = field(default=4, metadata={"minimum": 1})
    extra_compute_percent: int = field(default=0, metadata={"minimum": 0})
    execute_delay_milliseconds: int = field(default=0, metadata={"minimum": 0})
    cuda_graphs: int = field(default=1, metadata={"minimum": 0})

    @classmethod
    def of(cls, model_config: dict) -> "Parameters":
        """Reads the parameters; an unreadable one fails the load with its name."""
        given = {name: entry["string_value"] for name, entry in model_config.get("parameters", {}).items()}
        values = {}
        for name, parameter in cls.__dataclass_fields__.items():
            if name not in given:
                continue
            minimum = parameter.metadata["minimum"]
            if not given[name].isdecimal() or int(given[name]) < minimum:
                raise pb_utils.TritonModelException(
                    f"parameter {name}: expected an integer of at least {minimum}, got {given[name]!r}"
                )
            values[name] = int(given[name])
        return cls(**values)


@dataclass(eq=False)
class Call:
    """A request under way and what its caller still has to get."""

    sender: object
    is_streaming: bool
    text: str = ""
    n_tokens_sent: int = 0


class TritonPythonModel:
    """One instance of the model."""

    def initialize(self, args: dict) -> None:
        """Loads the network and starts generating."""
        self._parameters = Parameters.of(json.loads(args["model_config"]))
        self._engine = load_engine(
            Path(__file__).parent,
            self._parameters.max_batch,
            self._parameters.threads,
            self._parameters.extra_compute_percent,
            bool(self._parameters.cuda_graphs),
        )
        self._batcher: Batcher[Call] = Batcher(self._engine)
        self._arrivals: queue.SimpleQueue[tuple[Call, GenerationRequest] | None] = queue.SimpleQueue()
        self._n_unfinished = 0
        self._n_unfinished_lock = threading.Lock()
        self._thread = threading.Thread(target=self._generate, name="generation")
        self._thread.start()

    def execute(self, requests: list) -> None:
        """Checks and enqueues requests; answers at once only those that cannot be served."""
        for request in requests:
            if self._parameters.execute_delay_milliseconds:
                time.sleep(self._parameters.execute_delay_milliseconds / 1000)
            sender = request.get_response_sender()
            try:
                checked = self._checked(request)
            except InvalidRequest as error:
                fail(sender, str(error), pb_utils.TritonError.INVALID_ARG)
                continue
            if not self._reserve():
                limit = self._parameters.max_batch + self._parameters.max_waiting
                fail(sender, f"{limit} requests are under way; try again later", pb_utils.TritonError.UNAVAILABLE)
                continue
            self._arrivals.put((Call(sender, is_streaming=_flag(request, "stream")), checked))

    def finalize(self) -> None:
        """Stops generating; Triton unloads a model only after its requests."""
        self._arrivals.put(None)
        self._thread.join()

    def _checked(self, request) -> GenerationRequest:
        return checked_request(
            text_input=_bytes(request, "text_input")[0],
            max_tokens=int(pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy().reshape(-1)[0]),
            stop_words=_bytes(request, "stop_words"),
            vocabulary=self._engine.vocabulary,
            context_length=self._engine.context_length,
        )

    def _reserve(self) -> bool:
        with self._n_unfinished_lock:
            if self._n_unfinished == self._parameters.max_batch + self._parameters.max_waiting:
                return False
            self._n_unfinished += 1
            return True

    def _release(self) -> None:
        with self._n_unfinished_lock:
            self._n_unfinished -= 1

    def _generate(self) -> None:
        next_poll = 0.0
        while self._take_arrivals():
            if time.monotonic() >= next_poll:
                self._drop_cancelled()
                next_poll = time.monotonic() + CANCELLATION_POLL_SECONDS
            try:
                progress = self._batcher.step()
            except Exception as error:  # A failed step must not leave callers waiting for ever.
                self._fail_all(f"generation failed: {error}")
                continue
            for part in progress:
                self._report(part)

    def _take_arrivals(self) -> bool:
        """Moves new requests to the batcher, waiting for one when idle; returns false when told to stop."""
        while True:
            try:
                arrival = self._arrivals.get(block=self._batcher.is_idle)
            except queue.Empty:
                return True
            if arrival is None:
                self._fail_all("the model is being unloaded")
                return False
            self._batcher.submit(*arrival)

    def _drop_cancelled(self) -> None:
        for call in self._batcher.keys():
            if call.sender.is_cancelled():
                n_tokens = self._batcher.cancel(call)
                pb_utils.Logger.log_verbose(f"request cancelled after {n_tokens} tokens")
                self._release()
                fail(call.sender, "the request was cancelled", pb_utils.TritonError.CANCELLED)

    def _fail_all(self, message: str) -> None:
        for call in self._batcher.keys():
            self._batcher.cancel(call)
            self._release()
            fail(call.sender, message, pb_utils.TritonError.INTERNAL)

    def _report(self, progress: Progress[Call]) -> None:
        call = progress.key
        call.text += progress.text
        is_final = progress.finish_reason is not None
        if not is_final:
            n_new = progress.n_tokens - call.n_tokens_sent
            is_due = call.n_tokens_sent == 0 or n_new >= self._parameters.stream_interval
            if not (call.is_streaming and is_due and call.text):
                return
        reason = progress.finish_reason.value if is_final else ""
        flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if is_final else 0
        call.sender.send(response(call.text, reason, progress.n_tokens), flags=flags)
        call.text, call.n_tokens_sent = "", progress.n_tokens
        if is_final:
            self._release()


def response(text: str, finish_reason: str, n_tokens: int):
    """Builds a response with the entry's three outputs."""
    return pb_utils.InferenceResponse([
        pb_utils.Tensor("text_output", np.array([text.encode()], np.object_)),
        pb_utils.Tensor("finish_reason", np.array([finish_reason.encode()], np.object_)),
        pb_utils.Tensor("output_tokens", np.array([n_tokens], np.int32)),
    ])


def fail(sender, message: str, code) -> None:
    """Ends a request with an error."""
    # In one message with the final flag: sent as two, Triton 2.51 never frees a request whose caller closes its stream
    # at the first, and the model cannot be unloaded any more.
    answer = pb_utils.InferenceResponse([], error=pb_utils.TritonError(message, code))
    sender.send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _bytes(request, name: str) -> list[bytes]:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [bytes(value) for value in tensor.as_numpy().reshape(-1)]


def _flag(request, name: str) -> bool:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return tensor is not None and bool(tensor.as_numpy().reshape(-1)[0])
