"""Text generation on ONNX Runtime with continuous batching; Triton's model.py and `evaluate` both run on it."""
