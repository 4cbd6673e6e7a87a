"""Attention of our own inside models of transformers, for the training forward and the sampler."""
