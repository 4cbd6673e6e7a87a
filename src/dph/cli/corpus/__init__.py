"""``dph corpus``: one file a verb; ``app`` puts them together."""
