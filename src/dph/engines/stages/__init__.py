"""``dph run --engine trl`` and ``--engine verl``: a recipe's training in another engine.

The engine runs in processes of its own; this package converts the recipe before (``arguments``,
``overrides``), reads the engine's log while it runs, and takes its weights over afterwards.
"""
