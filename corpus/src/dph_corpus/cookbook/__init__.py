"""``dph-corpus run``: from raw files to Pass@k in one command, stage by stage.

Files and SQL become a corpus, the corpus a base model, that one a fine-tuned one, and the last is
trained by RL, with and without a divergence to what it was. ``stages`` is the table of what runs.
"""
