"""STAND-IN for upstream's BLS: calls the models around the engine, and serves one request at a time."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils
from lib.decode import pieces


class TritonPythonModel:
    """The model tensorrt_llm_bls."""

    def initialize(self, args):
        """Fails where it would answer with all text so far, which nobody here reads."""
        parameters = json.loads(args["model_config"])["parameters"]
        self.engine = parameters["tensorrt_llm_model_name"]["string_value"]
        if parameters["accumulate_tokens"]["string_value"].lower() == "true":
            raise pb_utils.TritonModelException("accumulate_tokens is on")

    def execute(self, requests):
        """Sends a response for each of the engine's."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                for text in pieces(request, self.engine):
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array(text, object))]))
            except pb_utils.TritonModelException as error:
                sender.send(pb_utils.InferenceResponse([], error=pb_utils.TritonError(str(error))))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
