"""What is measured of a model: Pass@k with intervals, what was kept and found, how many styles."""

# The function, at once: a later import of the module of that name would otherwise stand in its place.
from dph.evaluation.pass_at_k import pass_at_k

__all__ = ["pass_at_k"]
