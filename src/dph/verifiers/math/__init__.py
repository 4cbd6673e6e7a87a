"""The verifier ``math``, to train with."""
