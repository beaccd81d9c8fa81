"""STAND-IN for upstream's detokenizer: tokens are the bytes of a text, and those beyond them are left out."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The model postprocessing."""

    def initialize(self, args):
        """Fails without the tokenizer."""
        parameters = json.loads(args["model_config"])["parameters"]
        json.loads((Path(parameters["tokenizer_dir"]["string_value"]) / "tokenizer.json").read_bytes())

    def execute(self, requests):
        """Answers every request with the text of its tokens, each piece by itself."""
        return [self.text(request) for request in requests]

    def text(self, request):
        """The text of the only beam of a batch of one."""
        tokens = pb_utils.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy().reshape(-1)
        length = pb_utils.get_input_tensor_by_name(request, "SEQUENCE_LENGTH").as_numpy().reshape(-1)[0]
        text = bytes(int(token) for token in tokens[:length] if token < 256).decode(errors="replace")
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([[text.encode()]], object))])
