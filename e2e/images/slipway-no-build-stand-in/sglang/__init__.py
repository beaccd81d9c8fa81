"""STAND-IN for SGLang: a package of its name, with nothing of it."""
