"""STAND-IN for TensorRT-LLM's llmapi model: its files, arguments and tensors, without TensorRT-LLM."""

import json
from pathlib import Path
from threading import Thread

import triton_python_backend_utils as pb_utils
import yaml
from helpers import scalar, text
from stand_in_engine import check_checkpoint, generate

ARGUMENTS = {
    "model",
    "backend",
    "dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "max_seq_len",
    "max_batch_size",
    "max_num_tokens",
    "enable_chunked_prefill",
    "kv_cache_config",
}
"""Of tensorrt_llm.LLM in 1.2, as far as tests use them."""
KV_CACHE_ARGUMENTS = {"enable_block_reuse", "free_gpu_memory_fraction", "dtype"}


class TritonPythonModel:
    """The one model."""

    @classmethod
    def auto_complete_config(cls, config):
        """Takes from model.yaml what config.pbtxt leaves open."""
        of_triton = _arguments()["triton_config"]
        config.set_model_transaction_policy({"decoupled": bool(of_triton["decoupled"])})
        config.set_max_batch_size(int(of_triton["max_batch_size"]))
        return config

    def initialize(self, args):
        """Reads the arguments of the engine."""
        arguments = _arguments()
        del arguments["triton_config"]
        unknown = sorted((set(arguments) - ARGUMENTS) | (set(arguments["kv_cache_config"]) - KV_CACHE_ARGUMENTS))
        if unknown:
            raise pb_utils.TritonModelException(f"{unknown[0]}: Extra inputs are not permitted")
        check_checkpoint(arguments["model"])
        pb_utils.Logger.log_info(f"stand-in for TensorRT-LLM: {json.dumps(arguments, sort_keys=True)}")
        self._running = []

    def execute(self, requests):
        """Answers each request in a thread of its own."""
        self._running = [thread for thread in self._running if thread.is_alive()]
        for request in requests:
            thread = Thread(target=_answer, args=(request, request.get_response_sender()))
            thread.start()
            self._running.append(thread)

    def finalize(self):
        """Ends in order."""
        for thread in self._running:
            thread.join()


def _arguments():
    return yaml.safe_load((Path(pb_utils.get_model_dir()) / "model.yaml").read_text())


def _answer(request, sender):
    try:
        _stream(request, sender)
    except Exception as error:  # As upstream: whatever it is, the client is told.
        refusal = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        sender.send(refusal, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _stream(request, sender):
    if not scalar(request, "streaming", False) or not scalar(request, "sampling_param_exclude_input_from_output", False):
        raise ValueError("the stand-in only streams, and without the prompt")
    # Stop words that are sent would be of no use, as upstream.
    for step in generate(scalar(request, "sampling_param_max_tokens", 32), [], sender.is_cancelled):
        # All text so far, where the vLLM backend has what is new.
        tensors = [text("text_output", step.text)]
        if scalar(request, "return_finish_reason", False):
            tensors.append(text("finish_reason", str(step.finish_reason)))
        flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if step.finish_reason else 0
        sender.send(pb_utils.InferenceResponse(tensors), flags=flags)
        if flags:
            return
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
