"""Drawing completions from a model, and grading them."""
