"""The mathematics verifier ``math``, to train with."""
