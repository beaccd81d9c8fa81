"""STAND-IN for upstream's tokenizer: every byte of a text is a token; where the tokenizer has one, a token begins the prompt."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


def words_as_tokens(words):
    """One row of all tokens, one of where each word ends in it."""
    tokens, ends = [], []
    for word in words:
        tokens += list(word)
        ends.append(len(tokens))
    ends += [-1] * (len(tokens) - len(ends))
    return np.array([[tokens, ends]], np.int32)


class TritonPythonModel:
    """The model preprocessing."""

    def initialize(self, args):
        """Fails without the tokenizer."""
        parameters = json.loads(args["model_config"])["parameters"]
        tokenizer = json.loads((Path(parameters["tokenizer_dir"]["string_value"]) / "tokenizer.json").read_bytes())
        special = (tokenizer.get("post_processor") or {}).get("special_tokens") or {}
        self.begin = [token for entry in special.values() for token in entry["ids"]]
        self.end = max(token["id"] for token in tokenizer["added_tokens"] if token["special"])

    def execute(self, requests):
        """Answers every request with its tokens."""
        return [self.tokens(request) for request in requests]

    def tokens(self, request):
        """The tensors of one request, which has a batch of one."""
        query = pb_utils.get_input_tensor_by_name(request, "QUERY").as_numpy().reshape(-1)[0]
        stop_words = pb_utils.get_input_tensor_by_name(request, "STOP_WORDS_DICT")
        words = [] if stop_words is None else stop_words.as_numpy().reshape(-1).tolist()
        prompt = self.begin + list(query)
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("INPUT_ID", np.array([prompt], np.int32)),
            pb_utils.Tensor("REQUEST_INPUT_LEN", np.array([[len(prompt)]], np.int32)),
            pb_utils.Tensor("STOP_WORDS_IDS", words_as_tokens(words)),
            pb_utils.Tensor("OUT_END_ID", np.array([[self.end]], np.int32)),
        ])
