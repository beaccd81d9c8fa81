"""Text generation with continuous batching, on ONNX Runtime or torch; model.py of Triton and `evaluate` run on it."""

import os

# From 1.31 on, ONNX Runtime's wheels report usage to their vendor and write to the home folder, unless told otherwise
# before they are imported. A served model does neither.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# Prompts are short: threads of the tokenizer would only compete with those of the network.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
