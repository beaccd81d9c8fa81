"""Triton's entry (python backend): answers every prompt alike, or with its first line, or looks something up before, after a time that
is drawn.

`execute` only draws and enqueues; one thread answers what is due, so that waits do not block each other. Each request
costs some milliseconds of processor time, as the handling of a real one does.
"""

import heapq
import itertools
import json
import math
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import triton_python_backend_utils as pb_utils

ANSWER = b"Answer: 42\n\n"
CALL = b"Action: lookup[Ada.age]\n\n"
OBSERVATION = b"Observation:"
"""Begins what a tool has said."""
COMPUTE_SECONDS = 0.002
"""Processor time per request."""
CANCELLATION_POLL_SECONDS = 0.25
"""How often waiting requests are asked whether they were cancelled."""


@dataclass(frozen=True)
class Behaviour:
    """The parameters of config.pbtxt. Events that never happen have -1."""

    median_seconds: float
    sigma: float
    seed: int
    error_share: float
    hang_after: int
    crash_after: int
    is_echo: bool
    looks_up: bool

    @classmethod
    def of(cls, model_config: dict) -> "Behaviour":
        """Reads the parameters, all of which the builder writes."""
        given = {name: entry["string_value"] for name, entry in model_config["parameters"].items()}
        return cls(
            median_seconds=float(given["medianMilliseconds"]) / 1000,
            sigma=float(given["sigma"]),
            seed=int(given["seed"]),
            error_share=float(given["errorPercent"]) / 100,
            hang_after=int(given["hangAfter"]),
            crash_after=int(given["crashAfter"]),
            is_echo=given["echo"] == "1",
            looks_up=given["lookUp"] == "1",
        )


@dataclass(frozen=True)
class Fate:
    """What becomes of a request."""

    wait_seconds: float
    """Infinite for one that is never answered."""
    is_error: bool
    is_crash: bool


class Fates:
    """Draws the fates of requests in the order in which they come."""

    def __init__(self, behaviour: Behaviour, pod: str) -> None:
        """Prepares. Pods draw from sequences of their own, or two revisions would be compared by equal draws."""
        self._behaviour = behaviour
        self._random = random.Random(f"{behaviour.seed}/{pod}")
        self._number = 0

    def draw(self) -> Fate:
        """Draws the next one."""
        behaviour = self._behaviour
        self._number += 1
        wait = behaviour.median_seconds * math.exp(behaviour.sigma * self._random.gauss(0.0, 1.0))
        is_error = self._random.random() < behaviour.error_share
        if 0 <= behaviour.hang_after < self._number:
            wait = math.inf
        return Fate(wait, is_error, is_crash=0 < behaviour.crash_after < self._number)


@dataclass(order=True)
class Waiting:
    """A request under way, by the time at which it is answered."""

    due: float
    number: int
    fate: Fate = field(compare=False)
    answer: tuple[bytes, str, int] = field(compare=False)
    sender: object = field(compare=False)


class TritonPythonModel:
    """The one instance of the model."""

    def initialize(self, args: dict) -> None:
        """Starts the thread that answers."""
        behaviour = Behaviour.of(json.loads(args["model_config"]))
        self._behaviour, self._fates = behaviour, Fates(behaviour, os.uname().nodename)
        self._waiting: list[Waiting] = []
        self._numbers = itertools.count()
        self._has_changed = threading.Condition()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="answers")
        self._thread.start()

    def execute(self, requests: list) -> None:
        """Enqueues requests."""
        for request in requests:
            fate = self._fates.draw()
            if fate.is_crash:
                crash()
            text = said(self._behaviour, _values(request, "text_input")[0])
            answer = cut(text, _values(request, "max_tokens")[0], _values(request, "stop_words"))
            due = time.monotonic() + fate.wait_seconds
            with self._has_changed:
                entry = Waiting(due, next(self._numbers), fate, answer, request.get_response_sender())
                heapq.heappush(self._waiting, entry)
                self._has_changed.notify()

    def finalize(self) -> None:
        """Ends the thread; Triton unloads a model only after its requests."""
        with self._has_changed:
            self._is_ending = True
            self._has_changed.notify()
        self._thread.join()

    def _run(self) -> None:
        next_poll = time.monotonic() + CANCELLATION_POLL_SECONDS
        while (entry := self._next(next_poll)) is not None or not self._is_ending:
            if entry is not None:
                respond(entry)
            if time.monotonic() >= next_poll:
                self._drop_cancelled()
                next_poll = time.monotonic() + CANCELLATION_POLL_SECONDS

    def _next(self, until: float) -> Waiting | None:
        """Waits for the next request that is due; gives none when told to end, or at a time."""
        with self._has_changed:
            while not self._is_ending:
                now = time.monotonic()
                if self._waiting and self._waiting[0].due <= now:
                    return heapq.heappop(self._waiting)
                if now >= until:
                    return None
                first = self._waiting[0].due if self._waiting else math.inf
                self._has_changed.wait(min(first, until) - now)
            return None

    def _drop_cancelled(self) -> None:
        with self._has_changed:
            cancelled = [entry for entry in self._waiting if entry.sender.is_cancelled()]
            if cancelled:
                self._waiting = [entry for entry in self._waiting if entry not in cancelled]
                heapq.heapify(self._waiting)
        for entry in cancelled:
            fail(entry.sender, "the request was cancelled", pb_utils.TritonError.CANCELLED)


def said(behaviour: Behaviour, prompt: bytes) -> bytes:
    """What is answered to a prompt."""
    if behaviour.is_echo:
        return b"Answer: " + prompt.split(b"\n", 1)[0] + b"\n\n"
    if behaviour.looks_up and not prompt.rstrip().rsplit(b"\n", 1)[-1].startswith(OBSERVATION):
        return CALL
    return ANSWER


def cut(answer: bytes, max_tokens: int, stop_words: list[bytes]) -> tuple[bytes, str, int]:
    """Ends an answer as a model does: at its first stop word, or at its length. A token is a byte."""
    ends = [(at, at + len(word)) for word in stop_words if (at := answer.find(word)) >= 0]
    at, n_tokens = min(ends, default=(len(answer), len(answer)))
    if n_tokens > max_tokens:
        return answer[:max_tokens], "length", int(max_tokens)
    return answer[:at], "stop", n_tokens


def respond(entry: Waiting) -> None:
    """Works a little, then answers in one piece."""
    end = time.thread_time() + COMPUTE_SECONDS
    while time.thread_time() < end:
        pass
    if entry.sender.is_cancelled():
        fail(entry.sender, "the request was cancelled", pb_utils.TritonError.CANCELLED)
    elif entry.fate.is_error:
        fail(entry.sender, "failed as ordered by the option errorPercent", pb_utils.TritonError.INTERNAL)
    else:
        text, finish_reason, n_tokens = entry.answer
        response = pb_utils.InferenceResponse([
            pb_utils.Tensor("text_output", np.array([text], np.object_)),
            pb_utils.Tensor("finish_reason", np.array([finish_reason.encode()], np.object_)),
            pb_utils.Tensor("output_tokens", np.array([n_tokens], np.int32)),
        ])
        entry.sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def fail(sender, message: str, code) -> None:
    """Ends a request with an error; in one message with the final flag, or Triton 2.51 may never free the request."""
    answer = pb_utils.InferenceResponse([], error=pb_utils.TritonError(message, code))
    sender.send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def crash() -> None:
    """Ends the server and drops what is in flight. A model that ends only itself stays down, unseen by the kubelet.

    As the first process of its container the server is told by SIGTERM: signals it has no handler for do nothing to it.
    """
    os.kill(os.getppid(), signal.SIGTERM)
    os._exit(1)


def _values(request, name: str) -> list:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else tensor.as_numpy().reshape(-1).tolist()
