"""``dph run --engine verl``: a recipe's training in verl.

The engine runs in processes of its own; this package converts the recipe before (``overrides``),
reads the engine's log while it runs, and takes its weights over afterwards.
"""
