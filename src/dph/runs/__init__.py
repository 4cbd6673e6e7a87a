"""A recipe's stages, one after another, in a run directory."""
