"""Audit of a reward function: whether it tells right answers from wrong ones, however written."""
