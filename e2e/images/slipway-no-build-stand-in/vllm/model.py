"""STAND-IN for Triton's vLLM backend: its files, arguments and tensors, without vLLM."""

import json
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
import triton_python_backend_utils as pb_utils
from stand_in_engine import check_checkpoint, generate

SWITCHES = [
    "stream",
    "exclude_input_in_output",
    "return_finish_reason",
    "return_cumulative_logprob",
    "return_logprobs",
    "return_num_input_tokens",
    "return_num_output_tokens",
]
INPUTS = [
    {"name": "text_input", "data_type": "TYPE_STRING", "dims": [1]},
    {"name": "image", "data_type": "TYPE_STRING", "dims": [-1], "optional": True},
    {"name": "sampling_parameters", "data_type": "TYPE_STRING", "dims": [1], "optional": True},
    *({"name": name, "data_type": "TYPE_BOOL", "dims": [1], "optional": True} for name in SWITCHES),
]
OUTPUTS = [
    {"name": "text_output", "data_type": "TYPE_STRING", "dims": [-1]},
    {"name": "finish_reason", "data_type": "TYPE_STRING", "dims": [-1]},
    {"name": "cumulative_logprob", "data_type": "TYPE_FP32", "dims": [-1]},
    {"name": "logprobs", "data_type": "TYPE_STRING", "dims": [-1]},
    {"name": "num_input_tokens", "data_type": "TYPE_UINT32", "dims": [1]},
    {"name": "num_output_tokens", "data_type": "TYPE_UINT32", "dims": [-1]},
]


@dataclass
class AsyncEngineArgs:
    """Arguments of 0.11.0 and of features since, as far as tests use them; another one is a TypeError, as upstream."""

    model: str
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    quantization: str | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float = 0.9
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    enforce_eager: bool = False
    speculative_config: dict | None = None
    kv_offloading_size: float | None = None
    kv_offloading_backend: str = "native"
    structured_outputs_config: dict | None = None


@dataclass
class SamplingParams:
    """What a request may say."""

    max_tokens: int = 16
    temperature: float = 1.0
    stop: list[str] | None = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True


class TritonPythonModel:
    """Every model whose configuration names the backend."""

    @classmethod
    def auto_complete_config(cls, config):
        """Adds the backend's tensors to a configuration that has none."""
        for tensor in INPUTS:
            config.add_input(tensor)
        for tensor in OUTPUTS:
            config.add_output(tensor)
        config.set_model_transaction_policy({"decoupled": True})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args):
        """Reads the arguments of the engine."""
        arguments = json.loads((Path(pb_utils.get_model_dir()) / "model.json").read_text())
        check_checkpoint(AsyncEngineArgs(**arguments).model)
        pb_utils.Logger.log_info(f"stand-in for vLLM: {json.dumps(arguments, sort_keys=True)}")
        self._running = []

    def execute(self, requests):
        """Answers each request in a thread of its own."""
        self._running = [thread for thread in self._running if thread.is_alive()]
        for request in requests:
            thread = Thread(target=self._answer, args=(request, request.get_response_sender()))
            thread.start()
            self._running.append(thread)

    def finalize(self):
        """Ends in order."""
        for thread in self._running:
            thread.join()

    def _answer(self, request, sender):
        try:
            self._stream(request, sender)
        except Exception as error:  # As upstream: whatever it is, the client is told.
            refusal = pb_utils.InferenceResponse(error=pb_utils.TritonError(f"Error generating stream: {error}"))
            sender.send(refusal, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _stream(self, request, sender):
        is_on = {name: bool(_first(request, name)) for name in SWITCHES}
        if not is_on["stream"] or not is_on["exclude_input_in_output"]:
            raise ValueError("the stand-in only streams, and only what is new")
        sampling = SamplingParams(**json.loads(_first(request, "sampling_parameters")))
        seen = 0
        stop, ignores_end = sampling.stop or [], sampling.ignore_eos
        for step in generate(sampling.max_tokens, stop, sender.is_cancelled, ignores_end=ignores_end):
            tensors = [_texts("text_output", step.text[seen:])]
            if is_on["return_finish_reason"]:
                tensors.append(_texts("finish_reason", str(step.finish_reason)))
            if is_on["return_num_output_tokens"]:
                tensors.append(pb_utils.Tensor("num_output_tokens", np.array([step.tokens - seen], np.uint32)))
            seen = step.tokens
            flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if step.finish_reason else 0
            sender.send(pb_utils.InferenceResponse(tensors), flags=flags)
            if flags:
                return
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _first(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()[0]


def _texts(name, text):
    return pb_utils.Tensor(name, np.array([text.encode()], np.object_))
