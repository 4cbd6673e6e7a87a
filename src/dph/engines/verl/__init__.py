"""DPH-RL on a cluster, inside unmodified verl: a pool on every node's path, and two commands.

    python -m dph.engines.verl.presample <verl's overrides> dph.pool=pool ...
    python -m dph.engines.verl.train     <verl's overrides> dph.pool=pool dph.eta=0.01 ...

Needs the extra ``dph-rl[verl]``, best in an environment of its own (docs/guides/cluster.md). verl's
configuration, workers, agent loop and reward loop stay as they are. What is added, each through a
place that verl leaves open for it: trainers (``register_trainer``), a loss (``set_loss_fn``), an
agent loop and a reward manager (named in the configuration).
"""

from importlib.util import find_spec

for _name in ("verl", "transfer_queue"):
    if find_spec(_name) is None:
        raise ImportError(
            f"dph.engines.verl needs {_name}: install torch first, then "
            '"dph-rl[verl]" (verl>=0.9,<0.10)'
        )
