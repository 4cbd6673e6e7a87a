"""The real world: which of its tasks can decide anything, and the study on them."""
