"""The checkpoints in the engines that others wrote: transformers and vLLM, on a GPU."""
