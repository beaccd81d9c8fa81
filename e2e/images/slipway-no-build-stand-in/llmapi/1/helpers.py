"""STAND-IN for the file of that name: the image's model is more than one file."""

import numpy as np
import triton_python_backend_utils as pb_utils


def scalar(request, name, default):
    """An input of one element."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return default
    array = tensor.as_numpy()
    if array.size != 1:
        raise pb_utils.TritonModelException(f"Expected a scalar tensor for tensor {name}")
    return array.item(0)


def text(name, value):
    """An output of one text."""
    return pb_utils.Tensor(name, np.array([value.encode()], np.object_))
