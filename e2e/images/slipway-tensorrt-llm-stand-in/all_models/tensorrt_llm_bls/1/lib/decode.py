"""STAND-IN: the text of a request, piece by piece."""

import triton_python_backend_utils as pb_utils

TO_PREPROCESSING = {"text_input": "QUERY", "max_tokens": "REQUEST_OUTPUT_LEN", "stop_words": "STOP_WORDS_DICT", "end_id": "END_ID"}
TO_ENGINE = {
    "INPUT_ID": "input_ids", "REQUEST_INPUT_LEN": "input_lengths", "STOP_WORDS_IDS": "stop_words_list", "OUT_END_ID": "end_id",
}
TO_POSTPROCESSING = {"output_ids": "TOKENS_BATCH", "sequence_length": "SEQUENCE_LENGTH"}


def ask(model, tensors, outputs, **how):
    """The response of a model, or its responses where it is decoupled."""
    request = pb_utils.InferenceRequest(model_name=model, inputs=tensors, requested_output_names=list(outputs))
    return request.exec(**how)


def renamed(tensors, names):
    """Tensors of one model as inputs of another."""
    return [pb_utils.Tensor(names[tensor.name()], tensor.as_numpy()) for tensor in tensors if tensor.name() in names]


def checked(response):
    """A response that is no error."""
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return response


def pieces(request, engine):
    """The new text of each of the engine's responses."""
    own = [pb_utils.get_input_tensor_by_name(request, name) for name in [*TO_PREPROCESSING, "stream"]]
    own = [tensor for tensor in own if tensor is not None]
    prompt = checked(ask("preprocessing", renamed(own, TO_PREPROCESSING), TO_ENGINE)).output_tensors()
    inputs = renamed(prompt, TO_ENGINE) + renamed(own, {"max_tokens": "request_output_len", "stream": "streaming"})
    for response in ask(engine, inputs, TO_POSTPROCESSING, decoupled=True):
        tokens = renamed(checked(response).output_tensors(), TO_POSTPROCESSING)
        if tokens:
            [text] = checked(ask("postprocessing", tokens, ["OUTPUT"])).output_tensors()
            yield text.as_numpy()
