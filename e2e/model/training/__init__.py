"""Training of the demo's model; needs PyTorch and a GPU, unlike everything else here."""
