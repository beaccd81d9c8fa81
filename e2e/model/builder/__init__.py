"""The Custom engine's builder: checkpoint in, complete Triton model repository out; and its quality run."""
