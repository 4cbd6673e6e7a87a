"""What is measured of a model: Pass@k with intervals, what was kept and found, how many styles."""

# At once: otherwise whoever imports the module of that name puts it in the place of the function.
from dph.evaluation.pass_at_k import pass_at_k

__all__ = ["pass_at_k"]
