"""``dph run --engine verl``: a recipe's training in verl."""
