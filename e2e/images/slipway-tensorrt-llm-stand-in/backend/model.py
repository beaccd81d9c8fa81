"""STAND-IN for the C++ backend: reads the engine's folder as it would, and answers every prompt with the same tokens."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

ANSWER = b"Answer: 42\n\nand what a stop word cuts off"


def stop_words(request):
    """The words at which the engine ends by itself: one row of all tokens, one of where each word ends in it."""
    tensor = pb_utils.get_input_tensor_by_name(request, "stop_words_list")
    if tensor is None:
        return []
    tokens, ends = tensor.as_numpy().reshape(2, -1).tolist()
    ends = [end for end in ends if end > 0]
    return [tokens[start:end] for start, end in zip([0, *ends], ends)]


def until_word(answer, words):
    """An answer up to the first word, which stays in it."""
    ends = (end for end in range(1, len(answer) + 1) if any(answer[:end][-len(word):] == word for word in words))
    return answer[: next(ends, len(answer))]


class TritonPythonModel:
    """The model tensorrt_llm."""

    def initialize(self, args):
        """Fails without a whole engine."""
        parameters = json.loads(args["model_config"])["parameters"]
        engine = Path(parameters["gpt_model_path"]["string_value"])
        mapping = json.loads((engine / "config.json").read_text())["pretrained_config"]["mapping"]
        for rank in range(mapping["world_size"]):
            if not (engine / f"rank{rank}.engine").stat().st_size:
                raise pb_utils.TritonModelException(f"rank{rank}.engine is empty")

    def execute(self, requests):
        """Sends three tokens a response, as far as they were asked for."""
        for request in requests:
            sender = request.get_response_sender()
            most = pb_utils.get_input_tensor_by_name(request, "request_output_len").as_numpy().reshape(-1)[0]
            is_stop = pb_utils.get_input_tensor_by_name(request, "stop") is not None
            answer = [] if is_stop else until_word(list(ANSWER[: int(most)]), stop_words(request))
            for start in range(0, len(answer), 3):
                tokens = answer[start : start + 3]
                sender.send(pb_utils.InferenceResponse([
                    pb_utils.Tensor("output_ids", np.array([[tokens]], np.int32)),
                    pb_utils.Tensor("sequence_length", np.array([[len(tokens)]], np.int32)),
                ]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
